//! Counters, gauges and histograms by name, rendered as OpenMetrics text at
//! `/metrics` (`S10.2`).
//!
//! ```
//! # use sayso_service::metrics::{Metrics, SECONDS};
//! let metrics = Metrics::new();
//! let decided = metrics.counter("sayso_approvals_decided", "Approvals decided.", &["verdict"]);
//! decided.with(&["approved"]).inc();
//! let took = metrics.histogram("sayso_append_seconds", "Time of one append.", &[], SECONDS);
//! took.with(&[]).observe(0.004);
//! assert!(metrics.render().contains("sayso_approvals_decided_total{verdict=\"approved\"} 1"));
//! ```
//!
//! Asking twice for the same name gives the same metric. A handle got from
//! `with` is cheap to keep and free of look-ups: keep it where it is hot. Label
//! values must come from small sets (a verdict, a method), never from ids.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Bucket bounds for durations in seconds, from 0.5 ms to 5 minutes.
pub const SECONDS: &[f64] = &[
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    60.0, 300.0,
];

/// Bucket bounds for counts of things, from 1 to 1,024.
pub const COUNTS: &[f64] = &[
    1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0,
];

/// The content type of [`Metrics::render`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

type Labels = Vec<(&'static str, String)>;

/// The metrics of one process. Clones share one registry.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    registry: Registry,
    known: HashMap<&'static str, Known>,
}

#[derive(Clone, Debug)]
enum Known {
    Counter(Counters),
    Gauge(Gauges),
    Histogram(Histograms),
}

/// A metric with one value per combination of label values.
#[derive(Clone, Debug)]
pub struct Labelled<M, C = fn() -> M> {
    labels: &'static [&'static str],
    family: Family<Labels, M, C>,
}

/// A counter per combination of label values.
pub type Counters = Labelled<Counter>;
/// A gauge per combination of label values.
pub type Gauges = Labelled<Gauge>;
/// A histogram per combination of label values.
pub type Histograms = Labelled<Histogram, Buckets>;

/// Makes histograms with fixed bucket bounds.
#[derive(Clone, Copy, Debug)]
pub struct Buckets(&'static [f64]);

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

impl<M: Clone, C: MetricConstructor<M>> Labelled<M, C> {
    /// The metric for these label values, in the order of the label names.
    ///
    /// # Panics
    ///
    /// When there are more or fewer values than names: a mistake in the code
    /// that calls.
    pub fn with(&self, values: &[&str]) -> M {
        assert_eq!(self.labels.len(), values.len(), "a value for each label");
        let labels = self.labels.iter().copied();
        let labels: Labels = labels.zip(values.iter().map(|v| (*v).to_owned())).collect();
        self.family.get_or_create_owned(&labels)
    }
}

impl Metrics {
    /// An empty registry.
    pub fn new() -> Metrics {
        Metrics::default()
    }

    /// The counter of this name; `_total` is added when it is rendered.
    ///
    /// # Panics
    ///
    /// When the name already belongs to another kind of metric.
    pub fn counter(
        &self,
        name: &'static str,
        help: &str,
        labels: &'static [&'static str],
    ) -> Counters {
        let mut inner = self.lock();
        let known = inner.known(name, help, |registry, help| {
            let family = Family::<Labels, Counter>::default();
            registry.register(name, help, family.clone());
            Known::Counter(Labelled { labels, family })
        });
        match known {
            Known::Counter(found) => found,
            Known::Gauge(_) | Known::Histogram(_) => panic!("{name} is not a counter"),
        }
    }

    /// The gauge of this name.
    ///
    /// # Panics
    ///
    /// When the name already belongs to another kind of metric.
    pub fn gauge(&self, name: &'static str, help: &str, labels: &'static [&'static str]) -> Gauges {
        let mut inner = self.lock();
        let known = inner.known(name, help, |registry, help| {
            let family = Family::<Labels, Gauge>::default();
            registry.register(name, help, family.clone());
            Known::Gauge(Labelled { labels, family })
        });
        match known {
            Known::Gauge(found) => found,
            Known::Counter(_) | Known::Histogram(_) => panic!("{name} is not a gauge"),
        }
    }

    /// The histogram of this name with the given upper bucket bounds, such as
    /// [`SECONDS`].
    ///
    /// # Panics
    ///
    /// When the name already belongs to another kind of metric.
    pub fn histogram(
        &self,
        name: &'static str,
        help: &str,
        labels: &'static [&'static str],
        buckets: &'static [f64],
    ) -> Histograms {
        let mut inner = self.lock();
        let known = inner.known(name, help, |registry, help| {
            let family =
                Family::<Labels, Histogram, Buckets>::new_with_constructor(Buckets(buckets));
            registry.register(name, help, family.clone());
            Known::Histogram(Labelled { labels, family })
        });
        match known {
            Known::Histogram(found) => found,
            Known::Counter(_) | Known::Gauge(_) => panic!("{name} is not a histogram"),
        }
    }

    /// All metrics as OpenMetrics text, of the type [`CONTENT_TYPE`].
    pub fn render(&self) -> String {
        let mut out = String::new();
        text::encode(&mut out, &self.lock().registry).expect("writing to a string cannot fail");
        out
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic above leaves the registry as it was: nothing half done.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn known(
        &mut self,
        name: &'static str,
        help: &str,
        make: impl FnOnce(&mut Registry, String) -> Known,
    ) -> Known {
        if let Some(known) = self.known.get(name) {
            return known.clone();
        }
        // The registry ends the help text with a full stop of its own.
        let known = make(&mut self.registry, help.trim_end_matches('.').to_owned());
        self.known.insert(name, known.clone());
        known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s10_2_metrics_render_as_openmetrics() {
        let metrics = Metrics::new();
        metrics
            .counter("sayso_calls", "Calls.", &["method"])
            .with(&["Get"])
            .inc_by(2);
        metrics.gauge("sayso_open", "Open.", &[]).with(&[]).set(-3);
        let took = metrics.histogram("sayso_took_seconds", "Time.", &[], SECONDS);
        took.with(&[]).observe(0.003);
        let text = metrics.render();
        for line in [
            "# HELP sayso_calls Calls.\n",
            "# TYPE sayso_calls counter\n",
            "sayso_calls_total{method=\"Get\"} 2\n",
            "sayso_open{} -3\n",
            "sayso_took_seconds_bucket{le=\"0.005\"} 1\n",
            "sayso_took_seconds_count{} 1\n",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn the_same_name_is_the_same_metric() {
        let metrics = Metrics::new();
        metrics.counter("a", "A.", &[]).with(&[]).inc();
        metrics.clone().counter("a", "A.", &[]).with(&[]).inc();
        assert_eq!(metrics.counter("a", "A.", &[]).with(&[]).get(), 2);
        assert_eq!(metrics.render().matches("a_total").count(), 1);
    }

    #[test]
    #[should_panic(expected = "a is not a gauge")]
    fn a_name_has_one_kind() {
        let metrics = Metrics::new();
        metrics.counter("a", "A.", &[]);
        metrics.gauge("a", "A.", &[]);
    }
}
