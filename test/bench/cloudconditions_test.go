// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// ovn-controller changes its conditions as update_sb_monitors of each release makes them: by an
// interface for each of 23.03, later only for a port whose row has not come. No release of a port
// takes a datapath away.
func TestControllerConditions(t *testing.T) {
	l := newCloudLayout(cloudSize{nodes: 100, flows: 1, fewest: 20, most: 100})
	const node = 3
	local, remote := l.at[node][0], -1
	known := newControllerState(l, newestController, node).known
	for p := range l.ports {
		if !known[l.switchOf(p)] && !l.hasRouter(l.tenantOf(l.switchOf(p))) {
			remote = p
			break
		}
	}
	if remote < 0 {
		t.Fatal("the node has ports of all switches")
	}
	beside := local + 1 // on the switch of another port
	datapath := fmt.Sprint(clauseOf("datapath", "==", ref(kSwitch, l.switchOf(remote))))
	for name, release := range controllerReleases {
		s := newControllerState(l, release, node)
		var seen []string
		step := func(what string) {
			before := seen
			seen = nil
			for _, clause := range s.conditions()["Port_Binding"] {
				seen = append(seen, fmt.Sprint(clause))
			}
			slices.Sort(seen)
			var diff []string
			for _, c := range seen {
				if !slices.Contains(before, c) {
					diff = append(diff, "+"+c)
				}
			}
			for _, c := range before {
				if !slices.Contains(seen, c) {
					diff = append(diff, "-"+c)
				}
			}
			if before == nil {
				return
			}
			logical := func(p int) string { return fmt.Sprint(clauseOf("logical_port", "==", cloudPort(p))) }
			parent := func(p int) string { return fmt.Sprint(clauseOf("parent_port", "==", cloudPort(p))) }
			want := map[string]map[string][]string{
				"newest": {
					"plug beside": nil, "unplug beside": nil,
					"plug": {"+" + logical(remote)}, "the row comes": {"+" + datapath, "-" + logical(remote)}, "unplug": nil, "plug again": nil,
				},
				"23.03": {
					"plug beside": {"+" + logical(beside), "+" + parent(beside)}, "unplug beside": {"-" + logical(beside), "-" + parent(beside)},
					"plug": {"+" + logical(remote), "+" + parent(remote)}, "the row comes": {"+" + datapath}, "unplug": {"-" + logical(remote), "-" + parent(remote)},
					"plug again": {"+" + logical(remote), "+" + parent(remote)},
				},
			}[name][what]
			slices.Sort(diff)
			if slices.Sort(want); !slices.Equal(diff, want) {
				t.Errorf("%s: %s: the conditions change by\n%s\nwant\n%s", name, what, strings.Join(diff, "\n"), strings.Join(want, "\n"))
			}
		}
		step("begin")
		s.plug(beside)
		step("plug beside")
		s.unplug(beside)
		step("unplug beside")
		s.plug(remote)
		step("plug")
		if !s.answered() {
			t.Errorf("%s: no row has come", name)
		}
		step("the row comes")
		if s.answered() {
			t.Errorf("%s: another row has come", name)
		}
		s.unplug(remote)
		step("unplug")
		s.plug(remote)
		step("plug again")
	}
}

// A window of the churn leaves all ports as they were.
func TestChurnCycle(t *testing.T) {
	if changes := full.cloudSpan.Seconds() * changesASecond; changes != churnPorts*churnSteps {
		t.Errorf("a window of %v has %v changes, and a cycle %d", full.cloudSpan, changes, churnPorts*churnSteps)
	}
}
