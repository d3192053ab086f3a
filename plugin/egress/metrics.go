// SPDX-License-Identifier: Apache-2.0

package egress

import "github.com/puntdns/puntdns/internal/metricset"

var (
	series = metricset.New(name)

	verdicts = series.QueryCounter("verdicts_total",
		"Queries of guests that have a policy, by the policy and the verdict: allowed, not-allowed (answered, but opens nothing), denied (strict), would-deny (observe on); and answers: closed (an address is not opened), failed (SERVFAIL, as the switch has not opened the addresses), would-close (observe on).", "policy", "verdict")
	linesDropped = series.Counter("log_lines_dropped_total", "Lines of the log that were over its rate.").WithLabelValues()
)
