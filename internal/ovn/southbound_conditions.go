// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"fmt"
	"slices"
	"time"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// setConditions asks for what the networks that are wanted consist of: those of the
// guests here, those named, and what is joined to them. The local chassis is known by
// its name, and its ports are asked for by the chassis.
func (s *southbound) setConditions(now time.Time) {
	meters, conditions := s.coppConditions()
	if !s.world.local {
		// All rows of the other tables are read.
		if meters != "" || s.latest.gen > 0 {
			s.set(coverage{}, []string{meters}, conditions, now)
		}
		return
	}
	cover, others := s.addWanted(conditions)
	s.set(cover, append(others, "meters "+meters), conditions, now)
}

// addWanted adds the conditions for what is wanted of the networks. others identify those that are
// not in the coverage.
func (s *southbound) addWanted(conditions map[string][]ovsdb.Condition) (cover coverage, others []string) {
	w := s.world
	own := s.wantedDatapaths()
	want := own
	// The rows of retained guests may come back with other UUIDs, and those of
	// ports that are no guests here are not read otherwise.
	cover = coverage{routers: w.groups.users > 0}
	if cover.routers {
		want, cover.farPorts = reach(s, own)
	}
	if w.usesRouters() {
		s.wantRouters(&cover, own, want)
	}
	cover.rows = map[string][]ovsdb.UUID{tableDatapath: want}
	cover.ports = w.portsByName()
	refs := w.references.sorted()
	keys := w.grace.datapaths()
	conditions[tablePort] = byUUID("datapath", "==", want, s.portConditions(cover)...)
	conditions[tableDatapath] = byUUID("_uuid", "==", want, slices.Concat(datapathConditions(refs, keys), byUUID("_uuid", "==", cover.named))...)
	conditions[tableDNS] = byUUID("datapaths", "includes", want)
	others = []string{"chassis " + s.self.String()}
	for _, r := range refs {
		others = append(others, "network "+r.String())
	}
	for _, key := range keys {
		others = append(others, fmt.Sprint("key ", key))
	}
	return cover, others
}

// wantedDatapaths are those of guests here, and those that requests refer to, sorted.
func (s *southbound) wantedDatapaths() (want []ovsdb.UUID) {
	for _, p := range s.ports.All() {
		if isGuest(p.effectiveKind()) && (s.isHere(p) || s.world.grace.isRetained(p.name)) {
			want = append(want, p.datapath)
		}
	}
	for id, d := range s.datapaths.All() {
		if s.world.references.has(d.name, d.network) {
			want = append(want, id)
		}
	}
	return sortedSet(want)
}

// wantRouters adds to a coverage what networks say of their routers, for some datapaths, beside
// the datapaths that are wanted as a whole: the ports of the routers, and for the names of the
// routers then their rows of Datapath_Binding.
func (s *southbound) wantRouters(cover *coverage, of, whole []ovsdb.UUID) {
	for _, node := range of {
		for _, a := range attachmentsOf(s, node) {
			if a.known && contains(whole, a.router) {
				continue
			}
			cover.farPorts = append(cover.farPorts, portRef{name: a.routerPort})
			if a.known && s.world.labels.routerUsers > 0 {
				cover.named = append(cover.named, a.router)
			}
		}
	}
	slices.SortFunc(cover.farPorts, comparePortRefs)
	cover.farPorts = slices.Compact(cover.farPorts)
	cover.named = sortedSet(cover.named)
}

// portConditions ask for the ports that are wanted whatever datapath they are on. Each clause on a
// port is "==", those of setConditions too: then a server looks a row up in a hash table for each
// column. With a single clause of another kind it tries all clauses for each row of the table at a
// change of conditions, and for each row that changes (ovsdb_condition_from_json in ovsdb/condition.c
// of Open vSwitch).
//
// A port that migrates here has this chassis alone in additional_chassis. If there are several, the
// port comes by the name of its interface: Unserved asks for it.
func (s *southbound) portConditions(cover coverage) (all []ovsdb.Condition) {
	if s.self != (ovsdb.UUID{}) {
		here := []ovsdb.UUID{s.self}
		all = append(byUUID("chassis", "==", here), byUUID("additional_chassis", "==", here)...)
	}
	all = append(all, byText("logical_port", cover.ports)...)
	if cover.routers {
		all = append(all, ovsdb.Condition{Column: "type", Function: "==", Value: kindLocalnet})
	}
	for _, port := range cover.farPorts {
		all = append(all, ovsdb.Condition{Column: "logical_port", Function: "==", Value: port.name})
	}
	return all
}

// datapathConditions ask for the datapaths that those refer to, and for those that get the
// tunnel keys of retained guests. The UUID of a switch is in either of two columns, see
// datapath.
func datapathConditions(refs []SwitchRef, keys []uint32) (all []ovsdb.Condition) {
	for _, r := range refs {
		if r.Name != "" {
			all = append(all, ovsdb.Condition{Column: "external_ids", Function: "includes", Value: map[string]string{"name": r.Name}})
			continue
		}
		all = append(all,
			ovsdb.Condition{Column: "nb_uuid", Function: "includes", Value: ovsdb.UUID(r.ID)},
			ovsdb.Condition{Column: "external_ids", Function: "includes", Value: map[string]string{"logical-switch": r.ID.String()}})
	}
	for _, key := range keys {
		all = append(all, ovsdb.Condition{Column: "tunnel_key", Function: "==", Value: int64(key)})
	}
	return all
}

func (s *southbound) covers(id origin.Network) bool {
	for dp := range s.networks[id] {
		if !s.acknowledged.coverage.has(tableDatapath, dp) || s.world.usesRouters() && !s.coversRouters(dp) {
			return false
		}
	}
	return true
}

// coversRouters reports whether all is read that the network of a datapath says of its routers.
func (s *southbound) coversRouters(node ovsdb.UUID) bool {
	acknowledged := &s.acknowledged.coverage
	for _, a := range attachmentsOf(s, node) {
		switch {
		case !a.known:
			if !acknowledged.hasFarPort(portRef{name: a.routerPort}) {
				return false
			}
		case s.world.labels.routerUsers == 0 || s.datapaths.Get(a.router) != nil:
		case !contains(acknowledged.named, a.router) && !acknowledged.has(tableDatapath, a.router):
			return false
		}
	}
	return true
}
