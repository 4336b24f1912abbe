//! `docs/metrics.md`, `docs/metrics/dashboard.json` and `docs/metrics/alerts.yml` name the metrics that are emitted, and no others.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use fairlock::RecordWait;
use fairlock::embedded::{Fault, Faults};
use fairlock_testkit::datagram_network::Post;
use fairlock_testkit::lab::{SECOND, acquire, cut_off, have_turns, waits};
use futures::StreamExt;
use serde_json::Value;

use super::not_granted;
use super::scrape::{Scrape, scrape};
use crate::docs::links::{leads_somewhere, root, sources};

/// A metric as the page has it: its type, and the values of each of its labels. No values mean any.
#[derive(Debug, PartialEq, Eq)]
struct Metric {
    kind: String,
    labels: BTreeMap<String, BTreeSet<String>>,
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join("docs").join(file)).unwrap()
}

/// What stands in backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The rows of the table of metrics.
fn metrics(page: &str) -> BTreeMap<String, Metric> {
    let rows = page.lines().filter(|line| line.starts_with("| `fairlock_"));
    let metric = |row: &str| {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let [_, name, kind, labels, meaning, _] = &cells[..] else {
            unreachable!("{row}")
        };
        assert!(!meaning.is_empty(), "{row}");
        let (kind, unit) = kind.split_once(", ").unwrap();
        assert!(!unit.is_empty(), "{row}");
        let labels = labels.split(';').filter(|label| !label.is_empty());
        let labels = labels.map(|label| {
            let mut words = quoted(label).map(str::to_owned);
            (words.next().unwrap(), words.collect())
        });
        let kind = kind.to_owned();
        let labels = labels.collect();
        (name.trim_matches('`').to_owned(), Metric { kind, labels })
    };
    rows.map(metric).collect()
}

/// The values of the label `step` as the page lists them, in the table of what they are of.
fn steps(page: &str) -> BTreeSet<&str> {
    let (_, table) = page.split_once("| of | values |\n").unwrap();
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    let values = rows.filter_map(|row| row.split('|').nth(2));
    values.flat_map(quoted).collect()
}

/// The metric to which a series of a histogram belongs, or the name itself.
fn family<'a>(name: &'a str, metrics: &BTreeMap<String, Metric>) -> &'a str {
    let endings = ["_bucket", "_count", "_sum"].into_iter();
    let mut families = endings.filter_map(|ending| name.strip_suffix(ending));
    let is_histogram = |name: &&str| metrics.get(*name).is_some_and(|it| it.kind == "histogram");
    families.find(is_histogram).unwrap_or(name)
}

/// A contended run in which everything happens that has a metric.
fn everything() -> Scrape {
    scrape(async |lab, []| {
        let post = Post::seeded(1);
        let host = || {
            lab.host_with(|builder| {
                let builder = builder.notifier(post.notifier()).successor_slots(1);
                builder.lock_label(str::to_owned)
            })
        };
        let (a, b, c) = (host(), host(), host());
        a.locks.create_table().await.unwrap();
        let guard = acquire(&a).await;
        let waiting = [waits(lab, &b).await, waits(lab, &c).await];
        not_granted(&host(), RecordWait::NoWait).await;
        not_granted(&host(), RecordWait::Timeout(SECOND)).await;
        let _ = a.meets("renew hold", 1, Fault::Throttle);
        lab.wait(20 * SECOND).await;
        guard.release().await.unwrap();
        have_turns(waiting).await;
        let guard = acquire(&a).await;
        let waiting = waits(lab, &b).await;
        a.network.set_faults(cut_off());
        guard.lost().await;
        waiting.await.unwrap().release().await.unwrap();
        a.network.set_faults(Faults::default());
        drop(guard);
        lab.settle().await;
        assert_eq!(b.locks.locks().count().await, 1);
    })
}

/// What a scrape has that the page lacks, and the other way round.
fn differences(page: &str, scrape: &Scrape) -> Vec<String> {
    let (metrics, steps) = (metrics(page), steps(page));
    let mut found: Vec<_> = metrics
        .iter()
        .filter(|(name, metric)| scrape.types.get(*name) != Some(&metric.kind))
        .map(|(name, _)| format!("`{name}` is on the page, and not emitted with its type"))
        .collect();
    let unexplained = metrics
        .keys()
        .filter(|name| !scrape.described.contains(*name));
    found.extend(unexplained.map(|name| format!("`{name}` has no text")));
    for sample in &scrape.samples {
        let Some(metric) = metrics.get(family(&sample.name, &metrics)) else {
            found.push(format!("`{}` is not on the page", sample.name));
            continue;
        };
        for (label, value) in sample.labels.iter().filter(|(label, _)| *label != "le") {
            let is_listed = match (label.as_str(), metric.labels.get(label)) {
                (_, None) => false,
                ("step", _) => steps.contains(value.as_str()),
                (_, Some(values)) => values.is_empty() || values.contains(value),
            };
            if !is_listed {
                found.push(format!("`{}`: {label}=\"{value}\"", sample.name));
            }
        }
    }
    found
}

#[test]
fn every_metric_of_the_page_is_emitted_by_a_contended_run_and_every_one_that_is_emitted_is_there() {
    let (page, scrape) = (read("metrics.md"), everything());
    assert!(metrics(&page).len() > 10);
    let found = differences(&page, &scrape);
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn a_metric_a_label_or_a_step_that_only_one_side_has_is_noticed() {
    let (page, scrape) = (read("metrics.md"), everything());
    for (there, planted) in [
        ("`fairlock_retries_total` |", "`fairlock_retry_total` |"),
        ("`fairlock_holds` | gauge", "`fairlock_holds` | counter"),
        ("`granted`, `busy`", "`busy`"),
        ("`kind`: `read`", "`sort`: `read`"),
        ("`enter`, `enter over", "`enter over"),
    ] {
        assert!(page.contains(there), "{there}");
        let page = page.replace(there, planted);
        assert!(!differences(&page, &scrape).is_empty(), "{planted}");
    }
}

/// How the sources name the step of a request.
const NAMED: [&str; 8] = [
    "LockWrite::new(",
    "RowWrite::put(",
    "void_seen(",
    "verb: ",
    "let verb = ",
    "probed(",
    "scan_page(",
    "store.get(",
];

#[test]
fn the_steps_of_the_page_are_those_of_the_sources() {
    let page = read("metrics.md");
    let steps = steps(&page);
    let folders = ["src", "crates/protocol/src"].into_iter();
    let paths = folders.flat_map(|folder| sources(&root().join(folder)));
    let sources: String = paths
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    let named = NAMED.iter().flat_map(|before| {
        let texts = sources.split(before).skip(1);
        texts.filter_map(|text| text.strip_prefix('"')?.split('"').next())
    });
    let named: BTreeSet<_> = named.collect();
    assert!(named.len() > 25, "{named:?}");
    // Parts of the caller's own transactions are no requests of fairlock's.
    let unlisted = named.iter().filter(|step| !steps.contains(*step));
    assert_eq!(Vec::from_iter(unlisted), [&"check the holder"]);
    let is_gone = |step: &&&str| !sources.contains(&format!("\"{step}\""));
    let gone = steps.iter().filter(is_gone);
    assert_eq!(Vec::from_iter(gone), [&""; 0]);
}

/// The texts under a key, wherever it stands.
fn texts<'a>(of: &'a Value, key: &str, found: &mut Vec<&'a str>) {
    match of {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) if name == key => found.push(text),
                    _ => texts(value, key, found),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| texts(value, key, found)),
        _ => {}
    }
}

/// The expressions of the dashboard and of the alerts.
fn expressions() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(&read("metrics/dashboard.json")).unwrap();
    let mut found = Vec::new();
    texts(&dashboard, "expr", &mut found);
    texts(&dashboard, "definition", &mut found);
    let alerts = read("metrics/alerts.yml");
    let rules = alerts.lines().map(str::trim);
    let rules = rules.filter_map(|line| line.strip_prefix("expr: "));
    let found = found.into_iter().chain(rules);
    found.map(str::to_owned).collect()
}

/// What an expression names that is not on the page: a metric, a label of it, or a value of such a label.
fn unknown(expression: &str, metrics: &BTreeMap<String, Metric>) -> Vec<String> {
    let mut unknown = Vec::new();
    let is_part = |c: char| c == '_' || c.is_ascii_alphanumeric();
    for rest in expression.split("fairlock_").skip(1) {
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let name = format!("fairlock_{}", &rest[..end]);
        let Some(metric) = metrics.get(family(&name, metrics)) else {
            unknown.push(name);
            continue;
        };
        let matchers = rest[end..].strip_prefix('{').unwrap_or_default();
        let matchers = matchers.split('}').next().unwrap_or_default();
        for matcher in matchers.split(", ").filter(|it| !it.is_empty()) {
            let (label, value) = matcher.split_once(['=', '!']).unwrap();
            let values = value.trim_matches(['=', '~', '"']);
            let known = metric.labels.get(label);
            let is_any = values.starts_with('$');
            let is_known = |values: &BTreeSet<String>, value: &str| values.contains(value);
            let is_listed = match known {
                // Prometheus adds it.
                None => label == "job",
                Some(known) => {
                    known.is_empty()
                        || is_any
                        || values.split('|').all(|value| is_known(known, value))
                }
            };
            if !is_listed {
                unknown.push(format!("{name}{{{matcher}}}"));
            }
        }
    }
    unknown
}

#[test]
fn the_dashboard_and_the_alerts_name_only_what_is_on_the_page() {
    let metrics = metrics(&read("metrics.md"));
    let expressions = expressions();
    assert!(expressions.len() > 30, "{}", expressions.len());
    let found: Vec<_> = expressions
        .iter()
        .flat_map(|expression| unknown(expression, &metrics))
        .collect();
    assert!(found.is_empty(), "{found:#?}");
    let all = expressions.join("\n");
    let unseen = metrics.keys().filter(|name| !all.contains(name.as_str()));
    assert_eq!(Vec::from_iter(unseen), [""; 0], "on no panel");
    for planted in [
        "rate(fairlock_wait_second_count[5m])",
        "fairlock_losses_total{cause=\"expired\"}",
        "fairlock_losses_total{reason=\"expire\"}",
        "fairlock_releases_total{job=~\"$job\", outcome=~\"handed_off|passed\"}",
        "fairlock_holds_bucket",
    ] {
        assert!(!unknown(planted, &metrics).is_empty(), "{planted}");
    }
}

/// What a picture lacks of the dashboard, or shows of a panel that is another now. `scripts/dashboard-picture` draws a panel as one group.
fn undrawn(dashboard: &Value, picture: &str) -> Vec<String> {
    let panels = dashboard["panels"].as_array().unwrap();
    let mut found = Vec::new();
    for panel in panels {
        let title = panel["title"].as_str().unwrap();
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|side| &panel["gridPos"][side]);
        let id = &panel["id"];
        let group = format!("<g data-panel=\"{id}\" data-grid=\"{x} {y} {w} {h}\">");
        let Some(group) = picture.split(&group).nth(1) else {
            found.push(format!("`{title}` is not there, or at another place"));
            continue;
        };
        let group = group.split("</g>").next().unwrap();
        if !group.contains(&format!(">{}</text>", escaped(title))) {
            found.push(format!("`{title}` has another title"));
        }
        let mut asked = Vec::new();
        texts(panel, "expr", &mut asked);
        let asked: Vec<_> = asked.into_iter().map(escaped).collect();
        let drawn = group.split("<desc>").skip(1);
        let drawn = drawn.map(|rest| rest.split("</desc>").next().unwrap());
        if drawn.ne(asked.iter().map(String::as_str)) {
            found.push(format!("`{title}` shows other expressions"));
        }
        let is_filled = group.contains("<polyline ") || group.contains(">No data</text>");
        if panel["type"] != "row" && !is_filled {
            found.push(format!("`{title}` shows nothing"));
        }
    }
    let drawn = picture.matches("<g data-panel=").count();
    if drawn != panels.len() {
        found.push(format!("{drawn} panels, and not {}", panels.len()));
    }
    found
}

/// A text as XML has it.
fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;")
}

#[test]
fn the_picture_shows_every_panel_of_the_dashboard_and_a_missing_or_changed_one_is_noticed() {
    let dashboard: Value = serde_json::from_str(&read("metrics/dashboard.json")).unwrap();
    let picture = read("metrics/dashboard.svg");
    assert_eq!(undrawn(&dashboard, &picture), [""; 0]);
    assert!(read("metrics.md").contains("](metrics/dashboard.svg)"));

    let panels = dashboard["panels"].as_array().unwrap();
    for (at, panel) in panels.iter().enumerate() {
        let begin = format!("<g data-panel=\"{}\" ", panel["id"]);
        let (before, rest) = picture.split_once(&begin).unwrap();
        let (_, after) = rest.split_once("</g>").unwrap();
        let without = format!("{before}{after}");
        assert_eq!(undrawn(&dashboard, &without).len(), 2, "{begin}");

        let mut more = dashboard.clone();
        more["panels"].as_array_mut().unwrap().remove(at);
        assert_eq!(undrawn(&more, &picture).len(), 1, "{begin}");
    }
    let planted = |change: fn(&mut Value)| {
        let mut dashboard = dashboard.clone();
        change(&mut dashboard["panels"][1]);
        undrawn(&dashboard, &picture).len()
    };
    assert_eq!(planted(|panel| panel["title"] = "Planted".into()), 1);
    assert_eq!(planted(|panel| panel["gridPos"]["x"] = 1.into()), 1);
    assert_eq!(
        planted(|panel| panel["targets"][2]["expr"] = "up".into()),
        1
    );
    let is_shorter = planted(|panel| drop(panel["targets"].as_array_mut().unwrap().pop()));
    assert_eq!(is_shorter, 1);
    let blank = picture.replace("<polyline ", "<path ");
    assert!(!undrawn(&dashboard, &blank).is_empty());
}

#[test]
fn every_alert_has_a_row_that_says_what_to_do_and_every_row_is_an_alert() {
    let (page, rules) = (read("metrics.md"), read("metrics/alerts.yml"));
    let rows = page.lines().filter(|line| line.starts_with("| `Fairlock"));
    let rows: BTreeSet<_> = rows.filter_map(|row| quoted(row).next()).collect();
    let alerts = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "));
    assert_eq!(alerts.collect::<BTreeSet<_>>(), rows);
    assert!(!rows.is_empty());
    let runbooks = rules.lines().map(str::trim);
    let runbooks = runbooks.filter_map(|line| line.strip_prefix("runbook: docs/"));
    let wrong = runbooks.filter(|link| !leads_somewhere(link));
    assert_eq!(Vec::from_iter(wrong), [""; 0]);
    assert!(!leads_somewhere("metrics.md#planted"));
}
