//! The Kubernetes manifest of a sweep: its arguments are the command line's.

use clap::Parser;
use rumord_sim::commands::CommandLine;
use saphyr::{LoadableYamlNode, Yaml};

const MANIFEST: &str = include_str!("../../../config/kubernetes/sweep-job.yaml");
const VARIABLE: &str = "JOB_COMPLETION_INDEX";

/// The document of this kind.
fn document(kind: &str) -> Yaml<'static> {
    let documents = Yaml::load_from_str(MANIFEST).expect("YAML");
    let mut documents = documents.into_iter();
    let document = documents.find(|document| document["kind"].as_str() == Some(kind));
    document.expect("a document of this kind")
}

fn texts(list: &Yaml) -> Vec<String> {
    let items = list.as_vec().expect("a list");
    let text = |item: &Yaml| item.as_str().expect("a text").to_owned();
    items.iter().map(text).collect()
}

#[test]
fn every_pod_of_the_job_has_a_shard_of_its_own() {
    let job = document("Job");
    let spec = &job["spec"];
    assert_eq!(spec["completionMode"].as_str(), Some("Indexed"));
    let container = &spec["template"]["spec"]["containers"][0];
    assert_eq!(texts(&container["command"]), ["rumord-sim"]);
    let arguments = texts(&container["args"]);
    let accepted = |index: i64| {
        let value = |text: &String| text.replace(&format!("$({VARIABLE})"), &index.to_string());
        let all = ["rumord-sim".to_owned()]
            .into_iter()
            .chain(arguments.iter().map(value));
        CommandLine::try_parse_from(all).map(|_| ())
    };
    let completions = spec["completions"].as_integer().expect("a number");
    for index in 0..completions {
        let result = accepted(index).map_err(|error| error.to_string());
        assert_eq!(result, Ok(()), "index {index}");
    }
    let beyond = accepted(completions).expect_err("more shards than pods");
    assert!(beyond.to_string().contains("there is no shard"), "{beyond}");
}

/// Kubernetes expands `$(NAME)` in arguments only where the container declares the variable.
#[test]
fn the_index_is_declared_and_used() {
    let job = document("Job");
    let container = &job["spec"]["template"]["spec"]["containers"][0];
    let variable = &container["env"][0];
    assert_eq!(variable["name"].as_str(), Some(VARIABLE));
    let path = &variable["valueFrom"]["fieldRef"]["fieldPath"];
    let annotation = "metadata.annotations['batch.kubernetes.io/job-completion-index']";
    assert_eq!(path.as_str(), Some(annotation));
    let arguments = texts(&container["args"]).join(" ");
    assert_eq!(arguments.matches("$(").count(), 1, "{arguments}");
    assert!(
        arguments.contains(&format!("--shard=$({VARIABLE})/")),
        "{arguments}"
    );
}

/// What the shards leave outlives their pods.
#[test]
fn the_findings_are_written_to_the_claimed_volume() {
    let job = document("Job");
    let pod = &job["spec"]["template"]["spec"];
    let (container, volume) = (&pod["containers"][0], &pod["volumes"][0]);
    let mount = &container["volumeMounts"][0];
    let path = mount["mountPath"].as_str().expect("a path");
    assert!(texts(&container["args"]).contains(&format!("--out={path}")));
    assert_eq!(mount["name"].as_str(), volume["name"].as_str());
    let claim = &document("PersistentVolumeClaim")["metadata"]["name"];
    let claimed = &volume["persistentVolumeClaim"]["claimName"];
    assert!(claimed.as_str().is_some() && claimed.as_str() == claim.as_str());
}
