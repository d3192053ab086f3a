// SPDX-License-Identifier: Apache-2.0

package metric_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/puntdns/puntdns/internal/testkit"
	"github.com/puntdns/puntdns/ofpunt/metric"
)

// networkLines returns the series by network of a bridge that are not 0, and how many there are
// in all.
func networkLines(t *testing.T, bridge string) (text string, series int) {
	t.Helper()
	var lines []string
	for _, s := range testkit.Gather(t, prometheus.DefaultGatherer) {
		if of := s.Labels; strings.HasPrefix(s.Name, "coredns_ofpunt_network_") && of["bridge"] == bridge {
			if series++; s.Value > 0 {
				lines = append(lines, fmt.Sprint(of["switch"], " ", of["network"], " ", of["result"]+of["property"], " ", s.Value))
			}
		}
	}
	return strings.Join(lines, "\n"), series
}

// What is counted by network is what the guests here have asked, and is gone with them.
func TestNetworks(t *testing.T) {
	tally := metric.NewTally("br-networks")
	red := metric.Network{ID: [16]byte{0xab, 15: 1}, Switch: "red"}
	blue, gone := metric.Network{Switch: "blue"}, metric.Network{Switch: "gone"}
	ask := func() {
		tally.NetworkQuery(red, metric.Answered)
		tally.NetworkQuery(blue, metric.Refused)
		tally.NetworkQuery(gone, metric.Answered)
		tally.NetworkQuery(red, "no such result")
		tally.NetworkRefused(blue, metric.PropertyRate, 7)
		tally.NetworkRefused(gone, metric.PropertyRate, 7)
	}
	for _, step := range []struct {
		name   string
		set    map[metric.Network]struct{}
		series int
		want   string
	}{
		{"off", nil, 0, ""},
		{"two networks", map[metric.Network]struct{}{red: {}, blue: {}}, 16,
			"blue  refused 1\nred ab000000-0000-0000-0000-000000000001 answered 1\nblue  rate 7"},
		{"one has left", map[metric.Network]struct{}{red: {}}, 8, "red ab000000-0000-0000-0000-000000000001 answered 2"},
		{"it is back", map[metric.Network]struct{}{red: {}, blue: {}}, 16,
			"blue  refused 1\nred ab000000-0000-0000-0000-000000000001 answered 3\nblue  rate 7"},
		{"no guest", map[metric.Network]struct{}{}, 0, ""},
		{"off again", nil, 0, ""},
	} {
		tally.SetNetworks(step.set)
		ask()
		got, series := networkLines(t, "br-networks")
		if got != step.want {
			t.Errorf("%s:\n%s\nwant\n%s", step.name, got, step.want)
		}
		if series != step.series {
			t.Errorf("%s: %d series, want %d", step.name, series, step.series)
		}
	}
}

// The name of a switch is a tenant's choice: a scrape shows it without what a terminal acts on, and
// names that differ have series of their own.
func TestNetworkNames(t *testing.T) {
	tally := metric.NewTally("br-names")
	t.Cleanup(func() { tally.SetNetworks(nil) })
	networks := map[metric.Network]struct{}{}
	for _, name := range []string{"a\nb", `a\nb`, "a\u202eb", "a\xffb"} {
		networks[metric.Network{Switch: name}] = struct{}{}
	}
	tally.SetNetworks(networks)
	for n := range networks {
		tally.NetworkQuery(n, metric.Answered)
	}
	got, _ := networkLines(t, "br-names")
	lines := slices.Sorted(strings.SplitSeq(got, "\n"))
	want := []string{`a\\nb  answered 1`, `a\nb  answered 1`, `a\u202eb  answered 1`, `a\xffb  answered 1`}
	if !slices.Equal(lines, want) {
		t.Errorf("%q, want %q", lines, want)
	}
}

// Counting by network allocates nothing: it is on the path of each query.
func TestNetworkAllocates(t *testing.T) {
	tally := metric.NewTally("br-allocates")
	red := metric.Network{ID: [16]byte{1}, Switch: "red"}
	tally.SetNetworks(map[metric.Network]struct{}{red: {}})
	t.Cleanup(func() { tally.SetNetworks(nil) })
	if n := testing.AllocsPerRun(100, func() { tally.NetworkQuery(red, metric.Answered) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
