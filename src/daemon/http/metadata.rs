//! `/v1/self/tags` and `/v1/self/services/{name}`: what this node says of itself.

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use super::App;
use super::body::GivenBody;
use super::problem::Problem;
use super::query::Parameters;
use super::view::ServiceJson;
use crate::member::{Generation, MetadataError, NodeName, Service, Tags};
use crate::node::{DescribeError, Described, Expected, MetadataVersion, Snapshot};
use crate::protocol::{MetadataChange, MetadataOutcome};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ServiceBody {
    port: u16,
    #[serde(default)]
    tags: Tags,
}

/// This node's tags, with the tag for `If-Match`.
pub(super) async fn tags(State(app): State<App>, query: Parameters) -> Result<Response, Problem> {
    query.allow(&[])?;
    let snapshot = app.node.snapshot();
    let own = snapshot.members.iter().find(|member| member.local);
    let metadata = own.and_then(|member| member.metadata.as_deref());
    let tags = metadata.map(|metadata| &metadata.tags);
    let json = Json(tags.cloned().unwrap_or_default());
    Ok((entity_tag(&snapshot).map(etag_header), json).into_response())
}

/// One service of this node, with the tag for `If-Match`.
pub(super) async fn service(
    State(app): State<App>,
    path: Result<Path<String>, PathRejection>,
    query: Parameters,
) -> Result<Response, Problem> {
    query.allow(&[])?;
    let name = service_name(path)?;
    let snapshot = app.node.snapshot();
    let own = snapshot.members.iter().find(|member| member.local);
    let services = own.and_then(|member| member.metadata.as_deref());
    let mut services = services.iter().flat_map(|metadata| &metadata.services);
    let Some(service) = services.find(|service| service.name == name) else {
        return Err(no_service(&name));
    };
    let json = Json(ServiceJson::new(service));
    Ok((entity_tag(&snapshot).map(etag_header), json).into_response())
}

/// Replaces all tags of this node.
pub(super) async fn put_tags(
    State(app): State<App>,
    query: Parameters,
    headers: HeaderMap,
    GivenBody(tags): GivenBody<Tags>,
) -> Result<Response, Problem> {
    query.allow(&[])?;
    let expected = expected(&headers)?;
    tracing::info!(tags = tags.len(), "tags set over HTTP");
    let change = MetadataChange::Tags(tags.clone());
    let described = describe(&app, change, expected).await?;
    Ok((etag_header(tag_text(described.version)), Json(tags)).into_response())
}

/// Offers a service, or replaces it.
pub(super) async fn put_service(
    State(app): State<App>,
    path: Result<Path<String>, PathRejection>,
    query: Parameters,
    headers: HeaderMap,
    GivenBody(body): GivenBody<ServiceBody>,
) -> Result<Response, Problem> {
    query.allow(&[])?;
    let service = Service {
        name: service_name(path)?,
        port: body.port,
        tags: body.tags,
    };
    tracing::info!(service = %service.name, port = service.port, "service set over HTTP");
    let expected = expected(&headers)?;
    let change = MetadataChange::PutService(service.clone());
    let described = describe(&app, change, expected).await?;
    let etag = etag_header(tag_text(described.version));
    let json = Json(ServiceJson::new(&service));
    if described.outcome != MetadataOutcome::Added {
        return Ok((etag, json).into_response());
    }
    // A name has no byte that a URL would spell otherwise.
    let location = format!("/v1/self/services/{}", service.name);
    let location = HeaderValue::try_from(location).map(|value| [(header::LOCATION, value)]);
    Ok((StatusCode::CREATED, etag, location.ok(), json).into_response())
}

/// Stops offering a service.
pub(super) async fn remove_service(
    State(app): State<App>,
    path: Result<Path<String>, PathRejection>,
    query: Parameters,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    query.allow(&[])?;
    let name = service_name(path)?;
    tracing::info!(service = %name, "service removed over HTTP");
    let change = MetadataChange::RemoveService(name.clone());
    let described = describe(&app, change, expected(&headers)?).await?;
    if described.outcome == MetadataOutcome::Absent {
        return Err(no_service(&name));
    }
    let etag = etag_header(tag_text(described.version));
    Ok((StatusCode::NO_CONTENT, etag).into_response())
}

fn no_service(name: &NodeName) -> Problem {
    let detail = format!("this node offers no service {name}; GET /v1/self lists them");
    Problem::new(StatusCode::NOT_FOUND, detail)
}

fn service_name(path: Result<Path<String>, PathRejection>) -> Result<NodeName, Problem> {
    let Path(text) = path.map_err(|error| Problem::new(error.status(), error.body_text()))?;
    text.parse().map_err(|error| {
        let detail = format!("service {text:?}: {error}");
        Problem::new(StatusCode::BAD_REQUEST, detail)
    })
}

/// Changes the node's self-description.
pub(super) async fn describe(
    app: &App,
    change: MetadataChange,
    expected: Expected,
) -> Result<Described, Problem> {
    app.node.describe(change, expected).await.map_err(refusal)
}

fn refusal(error: DescribeError) -> Problem {
    let status = match &error {
        DescribeError::Stopped(_) => {
            let detail = "the node has stopped; start the agent again";
            return Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail);
        }
        DescribeError::Stale => {
            let detail = "If-Match names an earlier state: tags or services have changed since; \
                          read GET /v1/self/tags again, and send what it says in ETag";
            return Problem::new(StatusCode::PRECONDITION_FAILED, detail);
        }
        DescribeError::Exists => {
            let detail = "If-None-Match: * asks for something new, and it is there already; leave \
                          the header out to replace it";
            return Problem::new(StatusCode::PRECONDITION_FAILED, detail);
        }
        DescribeError::Missing => {
            let detail = "If-Match: * asks for a service that is there, and this node does not \
                          offer it; leave the header out to add it";
            return Problem::new(StatusCode::PRECONDITION_FAILED, detail);
        }
        DescribeError::Refused(MetadataError::TooLarge(_) | MetadataError::TooMany(_)) => {
            StatusCode::PAYLOAD_TOO_LARGE
        }
        DescribeError::Refused(_) => StatusCode::BAD_REQUEST,
    };
    Problem::new(status, error.to_string())
}

/// The tag of what this node says of itself: another one after every change.
pub(super) fn entity_tag(snapshot: &Snapshot) -> Option<String> {
    let own = snapshot.members.iter().find(|member| member.local)?;
    let metadata = own.metadata.as_deref()?;
    Some(tag_text(MetadataVersion {
        generation: metadata.generation,
        version: metadata.version,
    }))
}

fn tag_text(version: MetadataVersion) -> String {
    format!("\"{}-{}\"", version.generation, version.version)
}

/// The header that carries a tag made by [`entity_tag`].
pub(super) fn etag_header(tag: String) -> [(header::HeaderName, HeaderValue); 1] {
    let value = HeaderValue::try_from(tag).unwrap_or(HeaderValue::from_static("\"\""));
    [(header::ETAG, value)]
}

/// What the headers ask for.
fn expected(headers: &HeaderMap) -> Result<Expected, Problem> {
    let mut absent = headers.get_all(header::IF_NONE_MATCH).iter().peekable();
    if absent.peek().is_none() {
        return matching(headers);
    }
    if !absent.all(|value| value.as_bytes().trim_ascii() == b"*") {
        let detail = "If-None-Match must be * here: the change is made where there is nothing yet";
        return Err(Problem::new(StatusCode::BAD_REQUEST, detail));
    }
    if headers.contains_key(header::IF_MATCH) {
        let detail = "If-Match and If-None-Match contradict each other; keep one";
        return Err(Problem::new(StatusCode::BAD_REQUEST, detail));
    }
    Ok(Expected::Absent)
}

/// What `If-Match` asks for (RFC 9110 13.1.1: compared strongly, so a weak tag matches nothing).
fn matching(headers: &HeaderMap) -> Result<Expected, Problem> {
    let mut versions = Vec::new();
    let mut given = false;
    for value in headers.get_all(header::IF_MATCH) {
        let text = value.to_str().map_err(|_| wrong_if_match())?;
        for tag in text.split(',').map(str::trim) {
            given = true;
            if tag == "*" {
                return Ok(Expected::Present);
            }
            let opaque = tag
                .trim_start_matches("W/")
                .strip_prefix('"')
                .and_then(|rest| rest.strip_suffix('"'))
                .ok_or_else(wrong_if_match)?;
            if !tag.starts_with("W/") {
                versions.extend(version_of(opaque));
            }
        }
    }
    Ok(if given {
        Expected::OneOf(versions)
    } else {
        Expected::Any
    })
}

fn version_of(opaque: &str) -> Option<MetadataVersion> {
    let (generation, version) = opaque.split_once('-')?;
    Some(MetadataVersion {
        generation: Generation(generation.parse().ok()?),
        version: version.parse().ok()?,
    })
}

fn wrong_if_match() -> Problem {
    let detail = "If-Match must be an ETag as GET /v1/self/tags gives it, quotes included, or *";
    Problem::new(StatusCode::BAD_REQUEST, detail)
}
