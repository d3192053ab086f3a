// SPDX-License-Identifier: Apache-2.0

package plugincfg

import (
	"fmt"
	"slices"

	"github.com/puntdns/puntdns/internal/plugincfg/traits"
)

// deniesZones is why private stands below the plugins that have zones.
const deniesZones = "private would deny private names that it has"

// asksDenied is why egress stands above the plugins that ask other servers.
const asksDenied = "a server would be asked for names that a policy denies"

// orders are the pairs of plugins whose order is more than a matter of taste.
var orders = []struct{ first, then, why string }{
	{"hosts", "private", deniesZones},
	{"file", "private", deniesZones},
	{"auto", "private", deniesZones},
	{"secondary", "private", deniesZones},
	{"template", "private", deniesZones},
	{"kubernetes", "private", deniesZones},
	{"etcd", "private", deniesZones},
	{"ovnhosts", "cache", "the key of cache knows no tenant"},
	{"neutronhosts", "cache", "the key of cache knows no tenant"},
	{"rpz", "cache", "the policies of server blocks differ"},
	{"egress", "ovnforward", asksDenied},
	{"egress", "cache", "the policies of guests differ"},
	{"egress", "forward", asksDenied},
	{"egress", "passthrough", asksDenied},
	{"transfer", "cache", "cache would give all records of a transfer one TTL"},
	{"private", "forward", "an upstream would be asked for private names"},
	{"private", "passthrough", "the guest's server would be asked for private names"},
}

// BehindForward returns the plugins of no row of package traits that stand behind forward in a list of directives.
// They get only the queries that forward leaves to them, which with `forward .` are none.
func BehindForward(names []string) (behind []string) {
	for _, name := range names[slices.Index(names, "forward")+1:] {
		if _, known := traits.Of(name); !known && slices.Contains(names, "forward") {
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
	for _, o := range orders {
		first, then := slices.Index(names, o.first), slices.Index(names, o.then)
		if first >= 0 && then >= 0 && first > then {
			return fmt.Errorf("%s is behind %s, expected it before: %s", o.first, o.then, o.why)
		}
	}
	return nil
}
