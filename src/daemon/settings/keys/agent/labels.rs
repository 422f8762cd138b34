//! Tags and services from text.

use crate::member::{Generation, Metadata, NodeId, NodeName, Service, Tags, WireRange};

/// Adds `K=V` to `tags`.
pub(super) fn add_tag(tags: &mut Tags, text: &str) -> Result<(), String> {
    let (key, value) = text
        .split_once('=')
        .ok_or("is not KEY=VALUE; write it as zone=a")?;
    if tags.contains_key(key) {
        return Err(format!("tag {key} is given twice; keep one"));
    }
    let tag = Tags::from([(key.to_owned(), value.to_owned())]);
    check(tag.clone(), Vec::new())?;
    tags.extend(tag);
    Ok(())
}

/// Adds `NAME=PORT` to `services`, which stay sorted by name.
pub(super) fn add_service(services: &mut Vec<Service>, text: &str) -> Result<(), String> {
    let service = service(text)?;
    match services.binary_search_by(|other| other.name.cmp(&service.name)) {
        Ok(_) => Err(format!("service {} is given twice; keep one", service.name)),
        Err(position) => {
            services.insert(position, service);
            Ok(())
        }
    }
}

fn service(text: &str) -> Result<Service, String> {
    let remedy = || "is not NAME=PORT; write it as web=8080".to_owned();
    let (name, port) = text.split_once('=').ok_or_else(remedy)?;
    let name: NodeName = name.parse().map_err(|error| format!("{error}"))?;
    let port = port.parse().map_err(|_| remedy())?;
    let service = Service {
        name,
        port,
        tags: Tags::new(),
    };
    check(Tags::new(), vec![service.clone()])?;
    Ok(service)
}

/// Applies the rules of metadata to one entry.
fn check(tags: Tags, services: Vec<Service>) -> Result<(), String> {
    let metadata = Metadata {
        generation: Generation(1),
        node_id: NodeId(1),
        version: 0,
        address: ([127, 0, 0, 1], 1).into(),
        tags,
        services,
        wire: WireRange { min: 1, max: 1 },
        maintenance: None,
    };
    metadata.check().map_err(|error| error.to_string())
}
