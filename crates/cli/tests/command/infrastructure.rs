//! The table that the command makes, as an engine describes it. `scripts/check-infrastructure` compares it with the files in
//! docs/infrastructure, so that neither can change without the others.

use std::sync::{Arc, Mutex};

use fairlock::embedded::{Engine, Network, Outcome};
use fairlock_testkit::real_time;
use serde_json::{Value, json};

use crate::home::Home;

/// The tags of the files, by the defaults of their parameters.
const CREATE: &str = "table create --tag application=fairlock --tag environment=production";
/// The file into which the answers go.
const ANSWERS: &str = "FAIRLOCK_TABLE_ANSWERS";

#[test]
fn the_table_of_the_command_is_described_by_three_answers() {
    let home = Home::empty();
    home.run(CREATE).assert_done();
    let answers = real_time(described(&home.engine()));
    let [_, ttl, tags] = &answers[..] else {
        panic!("{answers:?}")
    };
    assert_eq!(
        ttl["TimeToLiveDescription"]["TimeToLiveStatus"],
        json!("ENABLED")
    );
    assert_eq!(tags["Tags"].as_array().map(Vec::len), Some(2));
    if let Some(file) = std::env::var_os(ANSWERS) {
        let text: String = answers.iter().map(|answer| format!("{answer}\n")).collect();
        std::fs::write(file, text).unwrap();
    }
}

/// The bodies of the engine's answers, as it sends them.
async fn described(engine: &Engine) -> Vec<Value> {
    let answers = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&answers);
    let network = Network::to(engine).observe(move |exchange| match exchange.outcome() {
        Outcome::Answered { status: 200, body } => seen.lock().unwrap().push(body.clone()),
        other => panic!("{other:?}"),
    });
    let (client, name) = (network.client(), "fairlock");
    let table = client.describe_table().table_name(name).send().await;
    let arn = table.unwrap().table.unwrap().table_arn.unwrap();
    let ttl = client.describe_time_to_live().table_name(name);
    ttl.send().await.unwrap();
    let tags = client.list_tags_of_resource().resource_arn(arn);
    tags.send().await.unwrap();
    let answers = answers.lock().unwrap();
    answers.clone()
}
