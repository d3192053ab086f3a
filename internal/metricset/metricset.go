// SPDX-License-Identifier: Apache-2.0

// Package metricset makes and registers the metrics of a plugin. A metric either counts where
// something happens, or is read from the plugin's state at each scrape.
package metricset

import (
	"github.com/coredns/coredns/plugin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Set makes metrics whose names begin with coredns_SUBSYSTEM_. Its methods are for variables and init
// functions of a package: they panic for a name that is taken.
type Set struct {
	subsystem string
	scraped   []*prometheus.Desc
}

// New returns a set without a metric.
func New(subsystem string) *Set { return &Set{subsystem: subsystem} }

// Counter returns a registered counter with labels.
func (s *Set) Counter(name, help string, labels ...string) *prometheus.CounterVec {
	return promauto.NewCounterVec(prometheus.CounterOpts{Namespace: plugin.Namespace, Subsystem: s.subsystem, Name: name, Help: help}, labels)
}

// Gauge returns a registered gauge with labels.
func (s *Set) Gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return promauto.NewGaugeVec(prometheus.GaugeOpts{Namespace: plugin.Namespace, Subsystem: s.subsystem, Name: name, Help: help}, labels)
}

// Histogram returns a registered histogram with labels.
func (s *Set) Histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return promauto.NewHistogramVec(prometheus.HistogramOpts{Namespace: plugin.Namespace, Subsystem: s.subsystem, Name: name, Help: help, Buckets: buckets}, labels)
}

// Scraped is a metric that OnScrape reads.
type Scraped struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

// ScrapedCounter returns a counter for OnScrape.
func (s *Set) ScrapedCounter(name, help string, labels ...string) Scraped {
	return s.scrapedMetric(prometheus.CounterValue, name, help, labels)
}

// ScrapedGauge returns a gauge for OnScrape.
func (s *Set) ScrapedGauge(name, help string, labels ...string) Scraped {
	return s.scrapedMetric(prometheus.GaugeValue, name, help, labels)
}

func (s *Set) scrapedMetric(kind prometheus.ValueType, name, help string, labels []string) Scraped {
	d := prometheus.NewDesc(prometheus.BuildFQName(plugin.Namespace, s.subsystem, name), help, labels, nil)
	s.scraped = append(s.scraped, d)
	return Scraped{d, kind}
}

// OnScrape registers the scraped metrics of the set, once it has all of them. Each scrape calls read.
func (s *Set) OnScrape(read func(Scrape)) { prometheus.MustRegister(s.Collector(read)) }

// Collector returns the scraped metrics of the set for another registry.
func (s *Set) Collector(read func(Scrape)) prometheus.Collector { return collector{s.scraped, read} }

// Scrape takes the values of one scrape.
type Scrape struct{ to chan<- prometheus.Metric }

// Put adds the value of a metric with the values of its labels, in order.
func (s Scrape) Put(m Scraped, v float64, labels ...string) {
	s.to <- prometheus.MustNewConstMetric(m.desc, m.kind, v, labels...)
}

// Flag returns 1 for true.
func Flag(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

type collector struct {
	descs []*prometheus.Desc
	read  func(Scrape)
}

func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

func (c collector) Collect(ch chan<- prometheus.Metric) { c.read(Scrape{ch}) }
