// SPDX-License-Identifier: Apache-2.0

package private

import "github.com/puntdns/puntdns/internal/metricset"

var (
	series = metricset.New(Name)

	answers = series.QueryCounter("answers_total",
		"Answers to questions for private names, by what makes the name private (reverse, special, suffix, also, single-label) and what the answer is (nxdomain, nodata, data).", "class", "answer")
	rebindRemoved = series.QueryCounter("rebind_filtered_total",
		"Answers of others that records with private addresses were removed from.")
)
