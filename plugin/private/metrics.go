// SPDX-License-Identifier: Apache-2.0

package private

import (
	"github.com/coredns/coredns/plugin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

var (
	answers = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: Name, Name: "answers_total",
		Help: "Answers to questions for private names, by what makes the name private (reverse, special, suffix, also, single-label) and what the answer is (nxdomain, nodata, data).",
	}, []string{"server", "view", "class", "answer"})
	rebindRemoved = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: Name, Name: "rebind_filtered_total",
		Help: "Answers of others that records with private addresses were removed from.",
	}, []string{"server", "view"})
)
