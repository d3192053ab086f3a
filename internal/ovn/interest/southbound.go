// SPDX-License-Identifier: Apache-2.0

package interest

import (
	"iter"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/topology"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// Uses is what requests and the configuration need from the databases.
type Uses struct {
	// Local is Monitor Local. Without it all rows are read, except meters, groups unless GroupNames or Egress is set, and
	// routers beside Southbound.
	Local      bool
	Southbound bool
	// Each of these is set while a request needs it, see ovndb.Requests.
	RouterScopes, Gateways, RouterNames, GroupNames, DNSServers, Forwards, Egress bool
}

func (u Uses) Attachments() bool { return u.Gateways || u.RouterNames }

// Inputs is immutable.
type Inputs struct {
	Uses
	References *ovn.References
	// Retained has the datapath key of each retained guest. Ports are read from Southbound by name.
	Retained map[string]uint32
	Ports    []string
	Plugged  []string
}

// Southbound requests ports of the local chassis, networks of local guests and of requests, networks that
// routers join to these, groups of local guests, and meters.
func Southbound(s *topology.Southbound, in *Inputs) Conditions {
	want := make(Conditions)
	askMeters(s, want)
	askGroups(want, in, in.GroupNames, southboundGroups(s, in))
	if !in.Local {
		return want.Sort()
	}
	nodes, peers := localDatapaths(s, in), []topology.Peer(nil)
	var attached []topology.Attachment
	if in.Attachments() {
		for _, node := range nodes {
			attached = append(attached, topology.AttachmentsOf(s, node)...)
		}
	}
	if in.RouterScopes {
		nodes, peers = topology.Reach(s, nodes)
		want.ask(topology.TablePort, Localnets)
	}
	for _, a := range attached {
		if a.Known && ovsdb.HasUUID(nodes, a.Router) {
			continue
		}
		peers = append(peers, topology.Peer{Name: a.RouterPort})
		if a.Known && in.RouterNames {
			want.ask(topology.TableDatapath, RowWithID(a.Router))
		}
	}
	askPorts(s, want, nodes, peers, in)
	askEach(want, topology.TableDNS, nodes, func(id ovsdb.UUID) clause { return idIn("datapaths", id) })
	askEach(want, topology.TableDatapath, nodes, RowWithID)
	for _, r := range in.References.Sorted() {
		askNetwork(want, r)
	}
	for _, key := range in.Retained {
		want.ask(topology.TableDatapath, clause{Column: "tunnel_key", Number: int64(key)})
	}
	return want.Sort()
}

func localGuests(s *topology.Southbound, in *Inputs) iter.Seq[*topology.PortBinding] {
	return func(yield func(*topology.PortBinding) bool) {
		for _, p := range s.Ports.All() {
			_, isRetained := in.Retained[p.Name]
			if ovn.IsGuestType(p.PortType()) && (s.IsHere(p) || isRetained) && !yield(p) {
				return
			}
		}
	}
}

func localDatapaths(s *topology.Southbound, in *Inputs) (all []ovsdb.UUID) {
	for p := range localGuests(s, in) {
		all = append(all, p.Datapath)
	}
	for id, d := range s.Datapaths.All() {
		if in.References.Has(d.Name, d.Network) {
			all = append(all, id)
		}
	}
	return ovsdb.SortUUIDs(all)
}

// Each clause has the function "==", so that a server finds rows by a hash table for each column. With any
// other function it tries all clauses for each row (ovsdb_condition_from_json in ovsdb/condition.c of Open
// vSwitch). So a port that migrates here is read only if this is its only additional_chassis.
func askPorts(s *topology.Southbound, want Conditions, datapaths []ovsdb.UUID, peers []topology.Peer, in *Inputs) {
	askEach(want, topology.TablePort, datapaths, portsOfDatapath)
	if s.Self != (ovsdb.UUID{}) {
		want.ask(topology.TablePort, idIs("chassis", s.Self), idIs("additional_chassis", s.Self))
	}
	askEach(want, topology.TablePort, in.Ports, PortNamed)
	askEach(want, topology.TablePort, peers, func(p topology.Peer) clause { return PortNamed(p.Name) })
}

var Localnets = textIs("type", ovn.TypeLocalnet)

func PortNamed(name string) clause { return textIs("logical_port", name) }

// Conditions with portsOfDatapath also request the datapath and its DNS rows.
func portsOfDatapath(id ovsdb.UUID) clause { return idIs("datapath", id) }

// The UUID of a switch is in either of two columns, see topology.Datapath.
func askNetwork(want Conditions, r ovn.SwitchRef) {
	if r.Name != "" {
		want.ask(topology.TableDatapath, keyIs("external_ids", "name", r.Name))
		return
	}
	want.ask(topology.TableDatapath, idIn("nb_uuid", ovsdb.UUID(r.ID)), keyIs("external_ids", "logical-switch", r.ID.String()))
}

func SwitchesOf(s *topology.Southbound, asked Conditions) (all []ovsdb.UUID) {
	for _, id := range asked.ids(topology.TablePort, "datapath") {
		if d := s.Datapaths.Get(id); d != nil && !d.Network.IsZero() {
			all = append(all, ovsdb.UUID(d.Network))
		}
	}
	return all
}

func askMeters(s *topology.Southbound, want Conditions) {
	want.ask(topology.TableGroup)
	want.ask(topology.TableMeter)
	want.ask(topology.TableBand)
	for _, f := range s.Flows.All() {
		if !f.IsMetered() {
			continue
		}
		want.ask(topology.TableMeter, textIs("name", f.Meter))
		if f.Group != (ovsdb.UUID{}) {
			want.ask(topology.TableGroup, RowWithID(f.Group))
		}
	}
	for _, m := range s.CoPP.Meters.All() {
		askEach(want, topology.TableBand, m.Bands, RowWithID)
	}
}
