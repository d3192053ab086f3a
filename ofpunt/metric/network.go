// SPDX-License-Identifier: Apache-2.0

package metric

import (
	"encoding/hex"
	"sync"
	"sync/atomic"

	"github.com/puntdns/puntdns/internal/escape"
	"github.com/puntdns/puntdns/internal/metricset"
)

// Network is a tenant network in the labels network and switch.
type Network struct {
	ID     [16]byte // UUID of the logical switch; zero where no OVN database is read
	Switch string   // name of the logical switch
}

// id returns the UUID in the form of RFC 9562, section 4. It is empty for no network.
func (n *Network) id() string {
	if n.ID == ([16]byte{}) {
		return ""
	}
	b := hex.EncodeToString(n.ID[:])
	return b[:8] + "-" + b[8:12] + "-" + b[12:16] + "-" + b[16:20] + "-" + b[20:]
}

// The values of the labels result and property in the metrics by network. They are few and
// fixed, so that a network has len(networkResults)+len(networkProperties) series.
var (
	networkResults    = [...]string{Answered, Resumed, Refused, Dropped}
	networkProperties = [...]string{PropertyRate, PropertyConcurrent, PropertyOverload, PropertyConnections}
)

var (
	networkQueries = series.ScrapedCounter("network_queries_total",
		"Queries of the guests of a network, over UDP and TCP, by what became of them: answered, resumed, refused or dropped.",
		"bridge", "network", "switch", "result")
	networkRefused = series.ScrapedCounter("network_refused_total",
		"What the guests of a network were refused by limits, by the property: packets over rate, queries over max_concurrent or lost to overload, SYNs over tcp_connections.",
		"bridge", "network", "switch", "property")
)

func init() { series.OnScrape(scrapeNetworks) }

// networkCounts counts for one network.
type networkCounts struct {
	results [len(networkResults)]atomic.Uint64
	refused [len(networkProperties)]atomic.Uint64
}

// networks are the networks that a tally counts for. The map does not change.
type networks map[Network]*networkCounts

// SetNetworks has the tally count by network, for these networks alone. It forgets the counts of all other
// networks. nil is for none.
func (t *Tally) SetNetworks(all map[Network]struct{}) {
	if all == nil {
		t.networks.Store(nil)
		networkTallies.Delete(t.bridge)
		return
	}
	before, now := t.networks.Load(), make(networks, len(all))
	for n := range all {
		if before != nil {
			now[n] = (*before)[n]
		}
		if now[n] == nil {
			now[n] = new(networkCounts)
		}
	}
	t.networks.Store(&now)
	networkTallies.Store(t.bridge, t)
}

// NetworkQuery counts a query of a guest of that network by its result. It takes no lock.
func (t *Tally) NetworkQuery(n Network, result string) {
	of := t.networks.Load()
	if of == nil {
		return
	}
	if c := (*of)[n]; c != nil {
		for i := range networkResults {
			if networkResults[i] == result {
				c.results[i].Add(1)
			}
		}
	}
}

// NetworkRefused counts what a guest of that network was refused by a limit, by its property.
func (t *Tally) NetworkRefused(n Network, property string, count uint64) {
	of := t.networks.Load()
	if of == nil {
		return
	}
	if c := (*of)[n]; c != nil {
		for i := range networkProperties {
			if networkProperties[i] == property {
				c.refused[i].Add(count)
			}
		}
	}
}

// networkTallies are the tallies (*Tally) that count by network, by bridge.
var networkTallies sync.Map

// scrapeNetworks reads the networks that have guests now.
func scrapeNetworks(to metricset.Scrape) {
	for _, t := range networkTallies.Range {
		t := t.(*Tally)
		of := t.networks.Load()
		if of == nil {
			continue
		}
		for n, counts := range *of {
			id, name := n.id(), escape.Value(n.Switch)
			for i, result := range networkResults {
				to.Put(networkQueries, float64(counts.results[i].Load()), t.bridge, id, name, result)
			}
			for i, property := range networkProperties {
				to.Put(networkRefused, float64(counts.refused[i].Load()), t.bridge, id, name, property)
			}
		}
	}
}
