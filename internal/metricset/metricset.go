// SPDX-License-Identifier: Apache-2.0

// Package metricset describes metrics that are computed at each scrape, for a prometheus.Collector of
// the plugin that has them.
package metricset

import (
	"slices"

	"github.com/coredns/coredns/plugin"
	"github.com/prometheus/client_golang/prometheus"
)

// Set has the descriptions of the metrics of one plugin. It is complete before it is used: descriptions
// are made where variables of a package are.
type Set struct {
	subsystem string
	labels    []string
	all       []*prometheus.Desc
}

// New returns a set without a metric. Each of its metrics is called coredns_SUBSYSTEM_..., and has these
// labels first.
func New(subsystem string, labels ...string) *Set { return &Set{subsystem: subsystem, labels: labels} }

// Desc adds a metric with further labels.
func (s *Set) Desc(metric, help string, labels ...string) *prometheus.Desc {
	d := prometheus.NewDesc(prometheus.BuildFQName(plugin.Namespace, s.subsystem, metric), help, slices.Concat(s.labels, labels), nil)
	s.all = append(s.all, d)
	return d
}

// Describe is that of prometheus.Collector.
func (s *Set) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range s.all {
		ch <- d
	}
}
