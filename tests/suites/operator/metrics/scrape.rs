//! What Prometheus would read of a test.

use std::collections::{BTreeMap, BTreeSet};

use fairlock::metric_buckets;
use fairlock_testkit::lab::{Host, Lab, in_lab};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};

/// A number with its name and its labels.
#[derive(Debug)]
pub(super) struct Sample {
    pub(super) name: String,
    pub(super) labels: BTreeMap<String, String>,
    value: f64,
}

/// Everything that was recorded on the thread of a test.
#[derive(Debug)]
pub(super) struct Scrape {
    /// The metrics, each with its type.
    pub(super) types: BTreeMap<String, String>,
    /// The metrics that have a text.
    pub(super) described: BTreeSet<String>,
    pub(super) samples: Vec<Sample>,
}

/// Runs a test in virtual time, on its own thread and for its own recorder.
pub(super) fn scrape<const N: usize>(test: impl AsyncFnOnce(&Lab, [Host; N])) -> Scrape {
    let exporter = metric_buckets().fold(PrometheusBuilder::new(), |exporter, (name, bounds)| {
        let name = Matcher::Full(name.into());
        exporter.set_buckets_for_metric(name, bounds).unwrap()
    });
    let recorder = exporter.build_recorder();
    let handle = recorder.handle();
    metrics::with_local_recorder(&recorder, || in_lab(test));
    Scrape::read(&handle.render())
}

impl Scrape {
    fn read(text: &str) -> Scrape {
        let lines = || text.lines().filter(|line| !line.is_empty());
        let types = lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
        let described = lines().filter_map(|line| line.strip_prefix("# HELP ")?.split_once(' '));
        Scrape {
            types: types
                .map(|(name, kind)| (name.to_owned(), kind.to_owned()))
                .collect(),
            described: described.map(|(name, _)| name.to_owned()).collect(),
            samples: lines()
                .filter(|line| !line.starts_with('#'))
                .map(sample)
                .collect(),
        }
    }

    /// The sum of all series of this name that have these labels.
    pub(super) fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let has = |sample: &&Sample| {
            let mut labels = labels.iter();
            sample.name == name
                && labels.all(|(label, value)| {
                    sample.labels.get(*label).map(String::as_str) == Some(*value)
                })
        };
        self.samples.iter().filter(has).map(|it| it.value).sum()
    }

    /// Fails if the series of this name have other values of this label that are not zero, or other sums.
    #[track_caller]
    pub(super) fn assert(&self, name: &str, label: &str, values: &[(&str, f64)]) {
        let of_name = self.samples.iter().filter(|sample| sample.name == name);
        let mut found = BTreeMap::<&str, f64>::new();
        for sample in of_name.filter(|sample| sample.value != 0.0) {
            let value = sample.labels.get(label).map_or("", String::as_str);
            *found.entry(value).or_default() += sample.value;
        }
        assert_eq!(found, values.iter().copied().collect(), "{name}");
    }
}

fn sample(line: &str) -> Sample {
    let (series, value) = line.rsplit_once(' ').unwrap();
    let (name, labels) = series.split_once('{').unwrap_or((series, ""));
    let labels = labels.trim_end_matches('}').split("\",");
    let label = |label: &str| {
        let (name, value) = label.split_once("=\"")?;
        Some((name.to_owned(), value.trim_end_matches('"').to_owned()))
    };
    Sample {
        name: name.to_owned(),
        labels: labels.filter_map(label).collect(),
        value: value.parse().unwrap(),
    }
}
