// SPDX-License-Identifier: Apache-2.0

package egress

import "github.com/puntdns/puntdns/internal/metricset"

var (
	series = metricset.New(name)

	verdicts = series.Counter("verdicts_total",
		"Queries of guests that have a policy, by the policy and the verdict: allowed, denied (strict on), would-deny (observe on: the name is not allowed); and answers: would-close (observe on: an address would not be opened).", "server", "view", "policy", "verdict")
	linesDropped = series.Counter("log_lines_dropped_total", "Lines of the log that were over its rate.").WithLabelValues()
)
