// SPDX-License-Identifier: Apache-2.0

package vswitch

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"sync/atomic"
)

// View has this node and a bridge. It is immutable except for external_ids, their version and LinkDown.
type View struct {
	// Chassis is the OVN chassis, "" if unknown.
	Chassis string
	// TunnelAddresses are the addresses of this node in the tunnels of OVN, sorted, of all chassis of the node.
	TunnelAddresses []netip.Addr
	// Interfaces has the interfaces of the bridge's ports, sorted by name. It is empty without the bridge.
	Interfaces []Interface
	// revision may be nil.
	revision *atomic.Pointer[revision]
}

// revision numbers the states of all external_ids. changed is closed by the next.
type revision struct {
	number  uint64
	changed chan struct{}
}

func newRevision() *atomic.Pointer[revision] {
	r := new(atomic.Pointer[revision])
	r.Store(&revision{changed: make(chan struct{})})
	return r
}

// ExternalIDsVersion returns the version of all external_ids, and a channel that is closed when they change.
// Versions of two Views are not comparable.
func (v View) ExternalIDsVersion() (version uint64, changed <-chan struct{}) {
	if v.revision == nil {
		return 0, nil
	}
	r := v.revision.Load()
	return r.number, r.changed
}

// Interface is a row of Interface with columns of its Port (ovs-vswitchd.conf.db(5)). Missing strings are
// empty.
type Interface struct {
	// UUID identifies the row, where names and numbers are reused.
	UUID string
	Name string
	// OFPort is 0 if not assigned.
	OFPort uint32
	// IfaceID is external_ids:iface-id, the logical port.
	IfaceID string
	// Type is "internal", "" for a system device, or as in ovs-vswitchd.conf.db(5).
	Type string
	// Machine is external_ids:vm-uuid (os-vif) or vm-id (libvirt).
	Machine     string
	AttachedMAC string
	// Port is shared by members of a bond.
	Port string
	// Tag is 0 to 4095; 0 if none.
	Tag uint16
	// NetworkID is Port.other_config:net_uuid of Neutron's agent.
	NetworkID string
	// Localnet is Port.external_ids:ovn-localnet-port, set by ovn-controller.
	Localnet string
	// current changes without a new View; may be nil.
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

// LinkDown reports whether the link is down now. It is false for an internal interface, which ovs-vswitchd
// reports as down in another network namespace.
func (i *Interface) LinkDown() bool {
	return i.Type != "internal" && i.current != nil && i.current.Load().linkDown
}

// Routers and Groups return "": the local database has neither.
func (*Interface) Routers() string { return "" }
func (*Interface) Groups() string  { return "" }

// isSame ignores the link and other external_ids.
func (i Interface) isSame(j Interface) bool {
	i.current, j.current = nil, nil
	return i == j
}

func (v View) equal(w View) bool {
	return v.Chassis == w.Chassis && slices.Equal(v.TunnelAddresses, w.TunnelAddresses) && slices.EqualFunc(v.Interfaces, w.Interfaces, Interface.isSame)
}

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

// view takes the result of systemIDOverride.
func (t tables) view(bridge, override string) View {
	v := View{revision: newRevision()}
	for _, r := range t[openVSwitchTable] {
		if row, ok := r.(*openVSwitch); ok {
			v.Chassis = newChassisConfig(row.ExternalIDs).name(bridge, override)
			v.TunnelAddresses = tunnelAddresses(row.ExternalIDs)
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
