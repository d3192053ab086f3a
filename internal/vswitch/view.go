// SPDX-License-Identifier: Apache-2.0

package vswitch

import (
	"cmp"
	"maps"
	"slices"
	"sync/atomic"
)

// View is what the local database says of this node and of one bridge. It is immutable, but for
// Interface.ExternalID.
type View struct {
	// Chassis is the name of the OVN chassis that has the bridge (ovn-controller(8)),
	// "" if it is not known.
	Chassis string
	// Interfaces are those of the ports of the bridge, sorted by name. There are none
	// while there is no such bridge.
	Interfaces []Interface
	// revision is that of external_ids; nil for one that never changes.
	revision *atomic.Pointer[revision]
}

// revision is a state of external_ids of all interfaces of a View. changed is closed once there
// is another one.
type revision struct {
	number  uint64
	changed chan struct{}
}

func newRevision() *atomic.Pointer[revision] {
	r := new(atomic.Pointer[revision])
	r.Store(&revision{changed: make(chan struct{})})
	return r
}

// ExternalIDsVersion returns the version of what Interface.ExternalID returns for the interfaces
// of the View, and a channel that is closed once there is another one. Versions of two Views are
// not comparable.
func (v View) ExternalIDsVersion() (version uint64, changed <-chan struct{}) {
	if v.revision == nil {
		return 0, nil
	}
	r := v.revision.Load()
	return r.number, r.changed
}

// Interface is one row of the Interface table with the columns of its Port
// (ovs-vswitchd.conf.db(5)). Each string is empty where the database has no
// value.
type Interface struct {
	// UUID is that of the row: a later port of the same name or number has another one.
	UUID string
	Name string
	// OFPort is the OpenFlow port number; 0, which no port has, until
	// ovs-vswitchd has assigned one and after it failed to.
	OFPort uint32
	// IfaceID is external_ids:iface-id, the name of the logical port.
	IfaceID string
	// Type is "internal" for one that the switch has made itself, "" for a device of
	// the system, else another type of ovs-vswitchd.conf.db(5).
	Type string
	// Machine is external_ids:vm-uuid, which os-vif writes, or vm-id, which libvirt
	// does: the virtual machine that the interface is of.
	Machine string
	// AttachedMAC is external_ids:attached-mac, as written there.
	AttachedMAC string
	// Port is the name of the Port; the members of a bond share one.
	Port string
	// Tag is Port.tag, 0 to 4095; 0 if none.
	Tag uint16
	// NetworkID is Port.other_config:net_uuid, which Neutron's agent writes.
	NetworkID string
	// Localnet is Port.external_ids:ovn-localnet-port: the localnet port of OVN that
	// ovn-controller has made the Port for.
	Localnet string
	// externalIDs has the column external_ids as it is now; nil for none. Most changes of it
	// are of no interest and make no View.
	externalIDs *atomic.Pointer[map[string]string]
}

// ExternalID returns the value of a key of external_ids as it is now, "" if there is none.
func (i *Interface) ExternalID(key string) string {
	if i.externalIDs == nil {
		return ""
	}
	return (*i.externalIDs.Load())[key]
}

// Routers returns "": the local database knows no routers.
func (*Interface) Routers() string { return "" }

// isSame reports whether two interfaces are the same, but for keys of external_ids that have no
// field.
func (i Interface) isSame(j Interface) bool {
	i.externalIDs, j.externalIDs = nil, nil
	return i == j
}

func (v View) equal(w View) bool {
	return v.Chassis == w.Chassis && slices.EqualFunc(v.Interfaces, w.Interfaces, Interface.isSame)
}

// update takes external_ids from a View that is equal.
func (v View) update(from View) {
	changed := false
	for i := range v.Interfaces {
		next := from.Interfaces[i].externalIDs.Load()
		was := v.Interfaces[i].externalIDs.Swap(next)
		changed = changed || !maps.Equal(*was, *next)
	}
	if changed {
		was := v.revision.Load()
		v.revision.Store(&revision{was.number + 1, make(chan struct{})})
		close(was.changed)
	}
}

// view returns what the tables say of a bridge. override is that of systemIDOverride.
func (t tables) view(bridge, override string) View {
	v := View{revision: newRevision()}
	for _, r := range t[openVSwitchTable] {
		if row, ok := r.(*openVSwitch); ok {
			v.Chassis = newChassisConfig(row.ExternalIDs).name(bridge, override)
		}
	}
	for _, r := range t[bridgeTable] {
		row, ok := r.(*ovsBridge)
		if !ok || row.Name != bridge {
			continue
		}
		for _, port := range row.Ports {
			v.Interfaces = t.appendPort(v.Interfaces, port)
		}
	}
	slices.SortFunc(v.Interfaces, func(a, b Interface) int { return cmp.Compare(a.Name, b.Name) })
	return v
}

// appendPort appends the interfaces of a row of Port.
func (t tables) appendPort(all []Interface, uuid string) []Interface {
	port, ok := t[portTable][uuid].(*ovsPort)
	if !ok {
		return all
	}
	for _, uuid := range port.Interfaces {
		row, ok := t[interfaceTable][uuid].(*ovsInterface)
		if !ok {
			continue
		}
		i := Interface{
			UUID:        row.UUID,
			Name:        row.Name,
			Type:        row.Type,
			IfaceID:     row.ExternalIDs["iface-id"],
			Machine:     cmp.Or(row.ExternalIDs["vm-uuid"], row.ExternalIDs["vm-id"]),
			AttachedMAC: row.ExternalIDs["attached-mac"],
			Port:        port.Name,
			NetworkID:   port.OtherConfig["net_uuid"],
			Localnet:    port.ExternalIDs["ovn-localnet-port"],
			externalIDs: new(atomic.Pointer[map[string]string]),
		}
		i.externalIDs.Store(&row.ExternalIDs) // the row is never altered
		// -1 says that the interface could not be opened. 65534, the local port, is the
		// highest number.
		if n := row.OFPort; n != nil && *n > 0 && *n < 1<<16 {
			i.OFPort = uint32(*n)
		}
		if n := port.Tag; n != nil && *n > 0 && *n < 1<<12 {
			i.Tag = uint16(*n)
		}
		all = append(all, i)
	}
	return all
}
