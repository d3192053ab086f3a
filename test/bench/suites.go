// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
)

// suite measures something, by itself or by its parts.
type suite struct {
	name  string
	run   func(*bench)
	parts []suite // what runs in the place of run; each fails without the others
}

func suiteNames(suites []suite) (names []string) {
	for _, s := range suites {
		names = append(names, s.name)
	}
	return names
}

// chooseSuites returns the suites of a comma-separated list, all for an empty one.
func chooseSuites(only string) ([]suite, error) {
	if only == "" {
		return suites, nil
	}
	names := strings.Split(only, ",")
	for _, name := range names {
		if !slices.Contains(suiteNames(suites), name) {
			return nil, fmt.Errorf("no suite %q: expected some of %s", name, strings.Join(suiteNames(suites), ", "))
		}
	}
	return slices.DeleteFunc(slices.Clone(suites), func(s suite) bool { return !slices.Contains(names, s.name) }), nil
}

// suiteParts are the parts of the suites cloud and before. Those of more run only if they are asked for.
var suiteParts = []struct{ usual, more []string }{
	{[]string{"requests", "server", "relays", "cluster"}, []string{"bars", "migrations", "newest"}},
	{suiteNames(beforeParts), nil},
}

// chooseParts returns the parts of a comma-separated list, and the usual parts of a suite without one in the list.
func chooseParts(list string) (map[string]bool, error) {
	chosen := map[string]bool{}
	if list != "" {
		for name := range strings.SplitSeq(list, ",") {
			chosen[name] = true
		}
	}
	var all []string
	for _, of := range suiteParts {
		parts := slices.Concat(of.usual, of.more)
		all = append(all, parts...)
		if !slices.ContainsFunc(parts, func(p string) bool { return chosen[p] }) {
			for _, p := range of.usual {
				chosen[p] = true
			}
		}
	}
	for name := range chosen {
		if !slices.Contains(all, name) {
			return nil, fmt.Errorf("no part %q: expected some of %s", name, strings.Join(all, ", "))
		}
	}
	return chosen, nil
}

// hasPart reports whether a part of a suite is run, true for none. bars is of server what bars need.
func (b *bench) hasPart(part string) bool {
	return part == "" || b.parts[part] || part == "server" && b.parts["bars"]
}

// runSuites runs suites, each whether or not the one before it failed, and calls written after each.
// It returns the first error of written at once; failures of suites go into the report.
func (b *bench) runSuites(chosen []suite, written func() error) error {
	var lacking []string
	for _, s := range b.apart(chosen) {
		err := b.t.Run(func() { s.run(b) })
		now := b.lacking()
		added := slices.DeleteFunc(slices.Clone(now), func(bar string) bool { return slices.Contains(lacking, bar) })
		if lacking = now; err == nil && len(added) > 0 {
			err = fmt.Errorf("no row for %s", strings.Join(added, "; "))
		}
		if err != nil {
			b.report.fail(s.name, err)
			b.say("failed: %s", b.report.failed[len(b.report.failed)-1])
		}
		if err := written(); err != nil {
			return err
		}
	}
	return nil
}

// apart returns suites, with the chosen parts of a suite in the place of the suite.
func (b *bench) apart(chosen []suite) (all []suite) {
	for _, s := range chosen {
		if s.parts == nil {
			all = append(all, s)
		}
		for _, part := range s.parts {
			if b.parts[part.name] {
				all = append(all, suite{name: s.name + ", part " + part.name, run: part.run})
			}
		}
	}
	return all
}

// lacking returns the bars without a row in a table that was measured here.
func (b *bench) lacking() (bars []string) {
	if b.elsewhere {
		return nil
	}
	for _, bar := range b.bars() {
		if _, _, ok := b.report.judge(bar); !ok && !bar.elsewhere && b.report.measured(bar.table).here() && b.hasPart(bar.part) {
			bars = append(bars, bar.what)
		}
	}
	return bars
}
