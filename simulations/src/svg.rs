//! Small pictures: points, lines, bands and bars on two axes.

use std::fmt::Write;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 440.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 48.0;
const BOTTOM: f64 = 56.0;
/// Marks on the upright axis, about.
const MARKS: f64 = 6.0;
/// Colours that most colour-blind readers can tell apart.
const COLOURS: [&str; 5] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#555555"];

/// What is drawn.
#[derive(Clone, Debug)]
pub enum Shape {
    /// Dots.
    Points(Vec<(f64, f64)>),
    /// A line from point to point.
    Line(Vec<(f64, f64)>),
    /// The area between two heights, at each x.
    Band(Vec<(f64, f64, f64)>),
    /// Bars from the ground up, as wide as said: x, width, height.
    Bars(Vec<(f64, f64, f64)>),
}

/// Shapes of one kind, with a name for the legend where it is not empty.
#[derive(Clone, Debug)]
pub struct Series {
    /// For the legend.
    pub name: String,
    /// Its place among the colours.
    pub colour: usize,
    /// What is drawn.
    pub shape: Shape,
}

/// A picture.
#[derive(Clone, Debug)]
pub struct Chart {
    /// Above it.
    pub title: String,
    /// Below it.
    pub across: String,
    /// Beside it.
    pub up: String,
    /// Marks on the lower axis: where, and what is written there.
    pub marks: Vec<(f64, String)>,
    /// What is drawn, from back to front.
    pub series: Vec<Series>,
}

impl Shape {
    /// Everything that must fit: pairs of x and y.
    fn corners(&self) -> Vec<(f64, f64)> {
        match self {
            Shape::Points(points) | Shape::Line(points) => points.clone(),
            Shape::Band(band) => band
                .iter()
                .flat_map(|&(x, a, b)| [(x, a), (x, b)])
                .collect(),
            Shape::Bars(bars) => bars
                .iter()
                .flat_map(|&(x, width, height)| [(x, height), (x + width, 0.0)])
                .collect(),
        }
    }
}

/// From figures to places on the picture.
struct Scale {
    x: (f64, f64),
    top: f64,
}

impl Scale {
    fn of(chart: &Chart) -> Self {
        let corners = || {
            chart
                .series
                .iter()
                .flat_map(|series| series.shape.corners())
        };
        let marks = chart.marks.iter().map(|(x, _)| *x);
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for x in corners().map(|(x, _)| x).chain(marks) {
            (low, high) = (low.min(x), high.max(x));
        }
        let top = corners().map(|(_, y)| y).fold(0.0, f64::max);
        let wide = if high > low { high - low } else { 1.0 };
        let low = if low.is_finite() { low } else { 0.0 };
        Scale {
            x: (low, wide),
            top: if top > 0.0 { top * 1.05 } else { 1.0 },
        }
    }

    fn place(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let across = (x - self.x.0) / self.x.1;
        let up = (y / self.top).clamp(0.0, 1.0);
        (
            LEFT + across * (WIDTH - LEFT - RIGHT),
            HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM),
        )
    }

    /// A round distance between marks.
    fn step(&self) -> f64 {
        let rough = self.top / MARKS;
        let power = libm::pow(10.0, libm::floor(libm::log10(rough)));
        let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
        steps
            .into_iter()
            .find(|&step| step >= rough)
            .unwrap_or(rough)
    }
}

impl Chart {
    /// The picture as SVG.
    #[must_use]
    pub fn draw(&self) -> String {
        let scale = Scale::of(self);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"13\">\n\
             <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n"
        );
        self.draw_axes(&scale, &mut svg);
        for series in &self.series {
            draw_series(series, &scale, &mut svg);
        }
        self.draw_legend(&mut svg);
        svg.push_str("</svg>\n");
        svg
    }

    fn draw_axes(&self, scale: &Scale, svg: &mut String) {
        let (ground, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        let step = scale.step();
        let mut height = 0.0;
        while height <= scale.top {
            let (_, y) = scale.place((scale.x.0, height));
            line(svg, (LEFT, y), (right, y), "#dddddd");
            text(svg, (LEFT - 8.0, y + 4.0), "end", &short(height));
            height += step;
        }
        for (x, label) in &self.marks {
            let (x, _) = scale.place((*x, 0.0));
            line(svg, (x, ground), (x, ground + 5.0), "#333333");
            text(svg, (x, ground + 20.0), "middle", label);
        }
        line(svg, (LEFT, ground), (right, ground), "#333333");
        let middle = (LEFT + right) / 2.0;
        text(svg, (middle, 22.0), "middle", &self.title);
        text(svg, (middle, HEIGHT - 12.0), "middle", &self.across);
        let beside = (TOP + ground) / 2.0;
        // Writing to a string cannot fail.
        let _ = writeln!(
            svg,
            "<text transform=\"translate(18 {beside:.1}) rotate(-90)\" \
             text-anchor=\"middle\">{}</text>",
            escaped(&self.up)
        );
    }

    fn draw_legend(&self, svg: &mut String) {
        let named = self.series.iter().filter(|series| !series.name.is_empty());
        for (place, series) in named.enumerate() {
            let y = TOP + 6.0 + 18.0 * place as f64;
            let colour = colour(series);
            let _ = writeln!(
                svg,
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"12\" height=\"12\" fill=\"{colour}\"/>",
                LEFT + 12.0,
                y - 10.0
            );
            text(svg, (LEFT + 30.0, y), "start", &series.name);
        }
    }
}

fn colour(series: &Series) -> &'static str {
    COLOURS[series.colour % COLOURS.len()]
}

fn draw_series(series: &Series, scale: &Scale, svg: &mut String) {
    let colour = colour(series);
    let path = |points: &mut dyn Iterator<Item = (f64, f64)>| {
        let places = points.map(|point| scale.place(point));
        let places: Vec<_> = places.map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        places.join(" ")
    };
    let _ = match &series.shape {
        Shape::Points(points) => points.iter().try_for_each(|&point| {
            let (x, y) = scale.place(point);
            writeln!(
                svg,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{colour}\"/>"
            )
        }),
        Shape::Line(points) => writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            path(&mut points.iter().copied())
        ),
        Shape::Band(band) => {
            let forth = band.iter().map(|&(x, low, _)| (x, low));
            let back = band.iter().rev().map(|&(x, _, high)| (x, high));
            writeln!(
                svg,
                "<polygon points=\"{}\" fill=\"{colour}\" fill-opacity=\"0.15\"/>",
                path(&mut forth.chain(back))
            )
        }
        Shape::Bars(bars) => bars.iter().try_for_each(|&(x, width, height)| {
            let (left, top) = scale.place((x, height));
            let (right, ground) = scale.place((x + width, 0.0));
            writeln!(
                svg,
                "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\" \
                 fill=\"{colour}\" fill-opacity=\"0.8\" stroke=\"white\"/>",
                right - left,
                ground - top
            )
        }),
    };
}

fn line(svg: &mut String, from: (f64, f64), to: (f64, f64), colour: &str) {
    let _ = writeln!(
        svg,
        "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\"/>",
        from.0, from.1, to.0, to.1
    );
}

fn text(svg: &mut String, (x, y): (f64, f64), anchor: &str, content: &str) {
    let content = escaped(content);
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{content}</text>"
    );
}

fn escaped(content: &str) -> String {
    content
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// A figure without needless digits, three after the point at most.
#[must_use]
pub fn short(figure: f64) -> String {
    let text = format!("{figure:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_holds_what_is_drawn_and_closes() {
        let chart = Chart {
            title: "a < b".into(),
            across: "N".into(),
            up: "ms".into(),
            marks: vec![(4.0, "16".into()), (5.0, "32".into())],
            series: vec![
                Series {
                    name: "mean".into(),
                    colour: 0,
                    shape: Shape::Points(vec![(4.0, 1.0), (5.0, 2.0)]),
                },
                Series {
                    name: String::new(),
                    colour: 0,
                    shape: Shape::Band(vec![(4.0, 0.5, 1.5), (5.0, 1.5, 2.5)]),
                },
            ],
        };
        let svg = chart.draw();
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert_eq!(svg.matches("<circle").count(), 2);
        assert_eq!(svg.matches("<polygon").count(), 1);
        assert!(svg.contains("a &lt; b") && !svg.contains("NaN"));
    }

    #[test]
    fn nothing_to_draw_is_an_empty_picture() {
        let chart = Chart {
            title: String::new(),
            across: String::new(),
            up: String::new(),
            marks: Vec::new(),
            series: Vec::new(),
        };
        assert!(!chart.draw().contains("NaN"));
    }
}
