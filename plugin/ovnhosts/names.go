// SPDX-License-Identifier: Apache-2.0

package ovnhosts

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/control"
	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/names"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

func init() { control.Process.Answer(api.PathNames, openSources.answerNames) }

// maxNames limits the names of one network in an answer.
const maxNames = 10_000

// The kinds of a requested word.
const (
	ofPort   = "port"
	ofSwitch = "switch"
	ofName   = "name"
)

// answerNames is the control.AnswerFunc of api.PathNames.
func (r *sourceSet) answerNames(_ context.Context, parameters url.Values) (any, error) {
	word := parameters.Get("of")
	out := &api.Names{Of: word, Networks: []api.NetworkNames{}}
	seen := map[origin.Network]bool{} // sources with other settings may read the same database
	for _, of := range r.all() {
		n := namesOf{snapshot: of.Snapshot(), domain: of.domain}
		kind, networks, name := n.find(word)
		if out.Kind == "" {
			out.Kind = kind
		}
		for _, network := range networks {
			if !seen[network.ID] {
				seen[network.ID] = true
				out.Networks = append(out.Networks, n.inNetwork(network, kind, name))
			}
		}
	}
	if word != "" && len(out.Networks) == 0 {
		return nil, control.NotFound("%q: no port or switch has this name, and no network knows it; expected one that is read here (monitor local reads the networks that have a guest on this node)", word)
	}
	slices.SortFunc(out.Networks, func(a, b api.NetworkNames) int {
		return cmp.Or(cmp.Compare(a.Switch, b.Switch), cmp.Compare(a.Network, b.Network))
	})
	return out, nil
}

type namesOf struct {
	snapshot *ovn.Snapshot
	domain   string // of the Corefile, or empty
}

// find returns a word's kind, networks and canonical name.
func (n *namesOf) find(word string) (kind string, networks []*ovn.Network, name string) {
	if word == "" {
		return "", slices.Collect(n.snapshot.Networks()), ""
	}
	if p := n.snapshot.PortByName(word); p != nil {
		return ofPort, n.reachable(p), ""
	}
	for network := range n.snapshot.Networks() {
		if network.Name == word || network.ID.String() == word {
			networks = append(networks, network)
		}
	}
	if len(networks) > 0 {
		return ofSwitch, networks, ""
	}
	name, err := names.Canonical(word)
	if err != nil {
		return "", nil, ""
	}
	for network := range n.snapshot.Networks() {
		if len(network.Sources(name, n.domain)) > 0 || network.Forwards.Find(name, dns.TypeA) != nil {
			networks = append(networks, network)
		}
	}
	if len(networks) == 0 {
		return "", nil, ""
	}
	return ofName, networks, name
}

// reachable returns the networks whose names a guest sees.
func (n *namesOf) reachable(p *ovn.Port) (networks []*ovn.Network) {
	scope := n.snapshot.RouterScope(p.Network)
	if scope.Own == nil {
		scope = n.snapshot.SwitchScope(p.Network)
	}
	if scope.Own == nil {
		return nil
	}
	for _, id := range scope.Networks() {
		if network := n.snapshot.Network(id); network != nil {
			networks = append(networks, network)
		}
	}
	return networks
}

func (n *namesOf) inNetwork(network *ovn.Network, kind, name string) api.NetworkNames {
	all := network.Names(n.domain)
	out := api.NetworkNames{
		Switch: network.Name, Network: network.ID.String(), Domain: network.Domain,
		Count: len(all), Names: []api.Name{},
	}
	for z := range network.Forwards.All() {
		out.ForwardedZones++
		if kind == ofPort || kind == ofSwitch || kind == ofName && network.Forwards.Find(name, dns.TypeA) == z {
			out.Forwards = append(out.Forwards, forwardOf(z))
		}
	}
	switch {
	case kind == "":
		return out
	case kind == ofName:
		all = []string{name}
	case len(all) > maxNames:
		all, out.Truncated = all[:maxNames], true
	}
	for _, name := range all {
		of := api.Name{Name: name, Values: []api.Value{}}
		for _, k := range network.Candidates(name, n.domain) {
			of.Values = append(of.Values, n.value(&k))
		}
		if len(of.Values) > 0 { // else the name is only forwarded
			out.Names = append(out.Names, of)
		}
	}
	return out
}

func forwardOf(z *ovn.Forward) api.Forward {
	f := api.Forward{Zone: z.Zone, Servers: []string{}, NamedBy: z.NamedBy}
	for _, server := range z.Servers {
		f.Servers = append(f.Servers, server.String())
	}
	return f
}

// keysOf returns the prefixes of the records' keys, each once.
func keysOf(records []string) (keys []string) {
	for _, text := range records {
		qtype, _, _ := strings.Cut(text, " ")
		if key := "dns-" + strings.ToLower(qtype); !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

func (n *namesOf) value(k *ovn.Candidate) api.Value {
	v := api.Value{
		Source: k.Source.String(), DomainFrom: k.DomainFrom, Targets: k.Targets, Records: k.Records, Addresses: []string{},
		Wins: k.Used, Unreadable: k.Unreadable, OVNOwned: k.OVNOwned, Derived: k.Derived,
	}
	if k.Row != ([16]byte{}) {
		v.Row, v.Database = ovsdb.UUID(k.Row).String(), "OVN_Northbound"
		if len(k.Records) > 0 {
			v.Keys = keysOf(k.Records)
		} else if qtype, _, _ := names.ParseRRKey(k.Key); qtype != dns.TypeNone {
			v.Keys = keysOf([]string{dns.TypeToString[qtype]})
		}
	}
	if k.Port != nil {
		v.Port = k.Port.Name
	}
	for _, a := range k.Addresses {
		v.Addresses = append(v.Addresses, a.String())
	}
	return v
}
