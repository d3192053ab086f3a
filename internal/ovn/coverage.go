// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"cmp"
	"slices"

	"github.com/puntdns/puntdns/internal/ovsdb"
)

// coverage is what conditions ask for. It is immutable.
type coverage struct {
	// rows are those asked for by UUID, by table, sorted.
	rows map[string][]ovsdb.UUID
	// farPorts are the ports at the other ends of links that are asked for, sorted: those that
	// lead to networks not known yet, and those of routers that networks say something of. See
	// northbound.wantRouters for those of Northbound beside Southbound.
	farPorts []portRef
	// ports are those of guests that Southbound is asked for by name, sorted, see portsByName.
	ports []string
	// routers is set if the rows that join networks are asked for.
	routers bool
	// named are the datapaths of which only the row is asked for, sorted.
	named []ovsdb.UUID
}

// portRef is how a database refers to the port at the other end of a link: Southbound
// by its name, Northbound by its row. The other field is empty.
type portRef struct {
	name string
	id   ovsdb.UUID
}

func comparePortRefs(a, b portRef) int {
	return cmp.Or(cmp.Compare(a.name, b.name), a.id.Compare(b.id))
}

func (c coverage) has(table string, id ovsdb.UUID) bool { return contains(c.rows[table], id) }

func (c coverage) hasAll(table string, ids []ovsdb.UUID) bool {
	for _, id := range ids {
		if !c.has(table, id) {
			return false
		}
	}
	return true
}

func (c coverage) hasFarPort(port portRef) bool {
	_, ok := slices.BinarySearchFunc(c.farPorts, port, comparePortRefs)
	return ok
}

func (c coverage) hasPort(name string) bool {
	_, ok := slices.BinarySearch(c.ports, name)
	return ok
}

// includes reports whether c asks for all that another coverage of the same tables asks for.
func (c coverage) includes(other coverage) bool {
	for table, ids := range other.rows {
		if !includes(c.rows[table], ids, ovsdb.UUID.Compare) {
			return false
		}
	}
	return includes(c.farPorts, other.farPorts, comparePortRefs) &&
		includes(c.ports, other.ports, cmp.Compare) && (c.routers || !other.routers) &&
		includes(c.named, other.named, ovsdb.UUID.Compare)
}

// includes reports whether a sorted set has all of another.
func includes[E any](set, other []E, compare func(a, b E) int) bool {
	for _, e := range other {
		n, ok := slices.BinarySearchFunc(set, e, compare)
		if !ok {
			return false
		}
		set = set[n+1:]
	}
	return true
}

// byUUID returns conditions for the rows of those UUIDs, none for none, behind others.
func byUUID(column, function string, ids []ovsdb.UUID, others ...ovsdb.Condition) []ovsdb.Condition {
	all := make([]ovsdb.Condition, 0, len(ids)+len(others))
	all = append(all, others...)
	for _, id := range ids {
		all = append(all, ovsdb.Condition{Column: column, Function: function, Value: id})
	}
	return all
}

// byText returns conditions for the rows with one of the values, none for none.
func byText(column string, values []string) []ovsdb.Condition {
	all := make([]ovsdb.Condition, 0, len(values))
	for _, v := range values {
		all = append(all, ovsdb.Condition{Column: column, Function: "==", Value: v})
	}
	return all
}

// sortedNames sorts in place, and drops repetitions.
func sortedNames(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

// sortedSet sorts in place, and drops repetitions.
func sortedSet(ids []ovsdb.UUID) []ovsdb.UUID {
	slices.SortFunc(ids, ovsdb.UUID.Compare)
	return slices.Compact(ids)
}

// contains reports whether a sorted set has the UUID.
func contains(set []ovsdb.UUID, id ovsdb.UUID) bool {
	_, ok := slices.BinarySearchFunc(set, id, ovsdb.UUID.Compare)
	return ok
}
