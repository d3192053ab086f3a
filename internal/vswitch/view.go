// SPDX-License-Identifier: Apache-2.0

package vswitch

import (
	"cmp"
	"maps"
	"slices"
	"sync/atomic"
)

// View has this node and one bridge, as in the local database. It is immutable, except for the results of
// Interface.ExternalID, Interface.LinkDown and ExternalIDsVersion.
type View struct {
	// Chassis is the name of the bridge's OVN chassis (ovn-controller(8)), "" if unknown.
	Chassis string
	// Interfaces has the interfaces of the bridge's ports, sorted by name. It is empty without the bridge.
	Interfaces []Interface
	// revision is the state of external_ids; nil if they never change.
	revision *atomic.Pointer[revision]
}

// revision identifies a state of the external_ids of all interfaces of a View. changed is closed by the next one.
type revision struct {
	number  uint64
	changed chan struct{}
}

func newRevision() *atomic.Pointer[revision] {
	r := new(atomic.Pointer[revision])
	r.Store(&revision{changed: make(chan struct{})})
	return r
}

// ExternalIDsVersion returns the version of the external_ids of all interfaces, and a channel that is closed when
// they change. Versions of two Views are not comparable.
func (v View) ExternalIDsVersion() (version uint64, changed <-chan struct{}) {
	if v.revision == nil {
		return 0, nil
	}
	r := v.revision.Load()
	return r.number, r.changed
}

// Interface is a row of table Interface with columns of its Port (ovs-vswitchd.conf.db(5)). A string is empty if the
// database has no value.
type Interface struct {
	// UUID identifies the row. A later port of the same name or number has another UUID.
	UUID string
	Name string
	// OFPort is the OpenFlow port number, 0 if ovs-vswitchd has not assigned one or has failed to.
	OFPort uint32
	// IfaceID is external_ids:iface-id, the name of the logical port.
	IfaceID string
	// Type is "internal" for an interface of the switch, "" for a device of the system, or another type of
	// ovs-vswitchd.conf.db(5).
	Type string
	// Machine is the interface's virtual machine: external_ids:vm-uuid, written by os-vif, or vm-id, written
	// by libvirt.
	Machine string
	// AttachedMAC is external_ids:attached-mac, as written there.
	AttachedMAC string
	// Port is the name of the Port; the members of a bond share one.
	Port string
	// Tag is Port.tag, 0 to 4095; 0 if none.
	Tag uint16
	// NetworkID is Port.other_config:net_uuid, which Neutron's agent writes.
	NetworkID string
	// Localnet is Port.external_ids:ovn-localnet-port: the localnet port of OVN for which ovn-controller has
	// made the Port.
	Localnet string
	// current has the columns that change without a new View; may be nil.
	current *atomic.Pointer[current]
}

// current is immutable.
type current struct {
	externalIDs map[string]string
	linkDown    bool
}

// ExternalID returns the current value of a key of external_ids, or "".
func (i *Interface) ExternalID(key string) string {
	if i.current == nil {
		return ""
	}
	return i.current.Load().externalIDs[key]
}

// LinkDown reports whether ovs-vswitchd sees at present that the link of the interface is down. It is false for an
// internal interface: ovs-vswitchd sees none that is in another network namespace, and calls its link down.
func (i *Interface) LinkDown() bool {
	return i.Type != "internal" && i.current != nil && i.current.Load().linkDown
}

// Routers returns "": the local database knows no routers.
func (*Interface) Routers() string { return "" }

// isSame reports whether two interfaces are equal, ignoring the link and keys of external_ids without a field.
func (i Interface) isSame(j Interface) bool {
	i.current, j.current = nil, nil
	return i == j
}

func (v View) equal(w View) bool {
	return v.Chassis == w.Chassis && slices.EqualFunc(v.Interfaces, w.Interfaces, Interface.isSame)
}

// update takes the external_ids and the links of a View that is equal to v.
func (v View) update(from View) {
	changed := false
	for i := range v.Interfaces {
		next := from.Interfaces[i].current.Load()
		was := v.Interfaces[i].current.Swap(next)
		changed = changed || !maps.Equal(was.externalIDs, next.externalIDs)
	}
	if changed {
		was := v.revision.Load()
		v.revision.Store(&revision{was.number + 1, make(chan struct{})})
		close(was.changed)
	}
}

// view returns the View of a bridge. override is the result of systemIDOverride.
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
			current:     new(atomic.Pointer[current]),
		}
		// The row is never altered.
		i.current.Store(&current{externalIDs: row.ExternalIDs, linkDown: row.LinkState != nil && *row.LinkState == "down"})
		// -1 is an interface that could not be opened. 65534, the local port, is the highest number.
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
