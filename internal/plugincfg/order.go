// SPDX-License-Identifier: Apache-2.0

package plugincfg

import (
	"fmt"
	"slices"

	"github.com/puntdns/puntdns/internal/plugincfg/traits"
)

// rule is an order of plugins that a distribution must have: each plugin of first before each plugin of then.
type rule struct {
	first, then func(plugin string) bool
	why         string
}

var rules = []rule{
	{with(traits.HasZones), named("private"), "private would deny private names that it has"},
	{with(traits.AnswersDiffer), named("cache"), "cache would give its answers to other guests"},
	{named("transfer"), named("cache"), "cache would give all records of a transfer one TTL"},
	{named("egress"), with(traits.Recurses), "a server would be asked for names that a policy denies"},
	{named("private"), named("forward", "passthrough"), "a server would be asked for private names"},
}

func with(t traits.Trait) func(string) bool {
	return func(plugin string) bool { return traits.Has(plugin, t) }
}

func named(all ...string) func(string) bool {
	return func(plugin string) bool { return slices.Contains(all, plugin) }
}

// BehindForward returns the plugins behind forward in a list of directives that have zones, or no row in package
// traits. They get only the queries that forward leaves to them, which with `forward .` are none.
func BehindForward(names []string) (behind []string) {
	for _, name := range names[slices.Index(names, "forward")+1:] {
		if _, known := traits.Of(name); (!known || traits.Has(name, traits.HasZones)) && slices.Contains(names, "forward") {
			behind = append(behind, name)
		}
	}
	return behind
}

// CheckOrder returns an error for an order of directives in which tenants are not kept apart, or
// in which ofpunt does not work. A list need not have all of the plugins.
func CheckOrder(names []string) error {
	if i := slices.Index(names, "ofpunt"); i >= 0 {
		for _, n := range names[:i] {
			if n != "root" {
				return fmt.Errorf("%s is before ofpunt, expected only root there: plugins read in their OnStartup what ofpunt builds in its own", n)
			}
		}
	}
	for _, r := range rules {
		for i, then := range names {
			behind := slices.IndexFunc(names[i+1:], r.first)
			if r.then(then) && behind >= 0 {
				return fmt.Errorf("%s is behind %s, expected it before: %s", names[i+1+behind], then, r.why)
			}
		}
	}
	return nil
}
