// SPDX-License-Identifier: Apache-2.0

package vswitch_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/puntdns/puntdns/internal/ovsdb/ovsdbtest"
	"github.com/puntdns/puntdns/internal/testkit"
	"github.com/puntdns/puntdns/internal/vswitch"
)

// TestChanges wants exactly one View for each transaction that matters.
func TestChanges(t *testing.T) {
	t.Parallel()
	var (
		local = vswitch.Interface{Name: "br-int", Port: "br-int", Type: "internal"}
		full  = vswitch.Interface{
			Name: "tap1", OFPort: 7, IfaceID: "lp1", AttachedMAC: "0a:00:00:00:00:01",
			Port: "tap1", Tag: 42, NetworkID: "net1",
		}
		member = func(name string) vswitch.Interface {
			return vswitch.Interface{Name: name, Port: "bond0"}
		}
		with = func(change func(*vswitch.Interface)) vswitch.Interface {
			i := full
			change(&i)
			return i
		}
		plain    = with(func(i *vswitch.Interface) { i.Tag, i.NetworkID = 0, "" })
		localnet = with(func(i *vswitch.Interface) { i.Tag, i.NetworkID, i.Localnet = 0, "", "ln1" })
		bond     = []vswitch.Interface{local, member("eth8"), member("eth9"), plain}
		single   = vswitch.Interface{Name: "tap0", Port: "tap0", IfaceID: "lp1"}
	)
	// A step without want does not matter, so the View after it is the next
	// step's.
	steps := []struct {
		name    string
		command string
		want    *vswitch.View
	}{
		{"system-id", "set Open_vSwitch . external_ids:system-id=hv1 external_ids:hostname=a", view("hv1")},
		{"bridge", "add-br br-int", view("hv1", local)},
		{"another bridge", "add-br br-ex -- add-port br-ex eth0 -- set Interface eth0 external_ids:iface-id=x", nil},
		{
			"interface",
			"add-port br-int tap1 tag=42 other_config:net_uuid=net1 -- set Interface tap1 ofport=7" +
				" external_ids:iface-id=lp1 external_ids:attached-mac=\"0a:00:00:00:00:01\"",
			view("hv1", local, full),
		},
		{"columns of no interest", "set Interface tap1 statistics:rx=1 -- set Port tap1 external_ids:a=b -- set Interface tap1 mtu=9000", nil},
		{"keys of no interest", "set Interface tap1 external_ids:a=b -- set Port tap1 other_config:a=b", nil},
		{"iface-id", "set Interface tap1 external_ids:iface-id=lp2", view("hv1", local, with(func(i *vswitch.Interface) { i.IfaceID = "lp2" }))},
		{"iface-id back", "set Interface tap1 external_ids:iface-id=lp1", view("hv1", local, full)},
		{"attached-mac gone", "remove Interface tap1 external_ids attached-mac", view("hv1", local, with(func(i *vswitch.Interface) { i.AttachedMAC = "" }))},
		{"attached-mac back", "set Interface tap1 external_ids:attached-mac=\"0a:00:00:00:00:01\"", view("hv1", local, full)},
		{"type", "set Interface tap1 type=internal", view("hv1", local, with(func(i *vswitch.Interface) { i.Type = "internal" }))},
		{"of os-vif", "set Interface tap1 external_ids:vm-uuid=vm1", view("hv1", local, with(func(i *vswitch.Interface) { i.Type, i.Machine = "internal", "vm1" }))},
		{"of libvirt", "remove Interface tap1 external_ids vm-uuid -- set Interface tap1 external_ids:vm-id=vm2", view("hv1", local, with(func(i *vswitch.Interface) { i.Type, i.Machine = "internal", "vm2" }))},
		{"a device again", "set Interface tap1 type=\"\" -- remove Interface tap1 external_ids vm-id", view("hv1", local, full)},
		{"interface failed", "set Interface tap1 ofport=-1", view("hv1", local, with(func(i *vswitch.Interface) { i.OFPort = 0 }))},
		{"ofport gone", "clear Interface tap1 ofport", nil},
		{"no such ofport", "set Interface tap1 ofport=4294967303", nil},
		{"local port", "set Interface tap1 ofport=65534", view("hv1", local, with(func(i *vswitch.Interface) { i.OFPort = 65534 }))},
		{"ofport", "set Interface tap1 ofport=7", view("hv1", local, full)},
		{"dead port", "set Port tap1 tag=4095", view("hv1", local, with(func(i *vswitch.Interface) { i.Tag = 4095 }))},
		{"tag and network gone", "clear Port tap1 tag -- remove Port tap1 other_config net_uuid", view("hv1", local, plain)},
		{"localnet port", "set Port tap1 external_ids:ovn-localnet-port=ln1", view("hv1", local, localnet)},
		{"localnet port gone", "remove Port tap1 external_ids ovn-localnet-port", view("hv1", local, plain)},
		{"bond", "add-bond br-int bond0 eth9 eth8", view("hv1", bond...)},
		{"port replaced", "del-port tap1 -- del-port bond0 -- add-port br-int tap0 -- set Interface tap0 external_ids:iface-id=lp1", view("hv1", local, single)},
		{"port made anew", "del-port tap0 -- add-port br-int tap0 -- set Interface tap0 external_ids:iface-id=lp1", view("hv1", local, single)},
		{"system-id changed", "set Open_vSwitch . external_ids:system-id=hv2", view("hv2", local, single)},
		{"a chassis for this bridge", "set Open_vSwitch . external_ids:ovn-bridge-hv2=br-two external_ids:ovn-bridge-hv3=br-int", view("hv3", local, single)},
		{"and for no other", "remove Open_vSwitch . external_ids ovn-bridge-hv2 ovn-bridge-hv3", view("hv2", local, single)},
		{"port removed", "del-port tap0", view("hv2", local)},
		{"many ports", manyPorts(100), view("hv2", append([]vswitch.Interface{local}, manyInterfaces(100)...)...)},
		{"bridge removed", "del-br br-int", view("hv2")},
		{"system-id removed", "remove Open_vSwitch . external_ids system-id", view("")},
	}

	s := ovsdbtest.Start(t, schema)
	o := observe(t, parse(t, s.Endpoint), nil)
	if diff := cmp.Diff(vswitch.View{}, o.view(t), sansUUID); diff != "" {
		t.Fatalf("empty database (-want +got):\n%s", diff)
	}
	o.up(t)
	for _, step := range steps {
		vsctl(t, s, strings.Fields(step.command)...)
		if step.want == nil {
			continue
		}
		if diff := cmp.Diff(*step.want, o.view(t), sansUUID); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", step.name, diff)
		}
	}
}

func view(systemID string, interfaces ...vswitch.Interface) *vswitch.View {
	return &vswitch.View{Chassis: systemID, Interfaces: interfaces}
}

func manyPorts(n int) string {
	var commands []string
	for i := range n {
		name := fmt.Sprintf("vm%03d", i)
		commands = append(commands, "add-port br-int "+name, "set Interface "+name+" external_ids:iface-id=lp-"+name)
	}
	return strings.Join(commands, " -- ")
}

func manyInterfaces(n int) (all []vswitch.Interface) {
	for i := range n {
		name := fmt.Sprintf("vm%03d", i)
		all = append(all, vswitch.Interface{Name: name, Port: name, IfaceID: "lp-" + name})
	}
	return all
}

// TestWholeTransactions writes one number to rows of two tables, over and over;
// no View may show two numbers.
func TestWholeTransactions(t *testing.T) {
	t.Parallel()
	const ports, rounds = 20, 300
	s := ovsdbtest.Start(t, schema)
	vsctl(t, s, strings.Fields("add-br br-int -- "+manyPorts(ports))...)
	o := observe(t, parse(t, s.Endpoint), nil)
	o.view(t)
	o.up(t)

	finished := make(chan struct{})
	go func() {
		defer close(finished)
		for n := 1; n <= rounds; n++ {
			// Of all rows: br-int has them too.
			s.Transact(t, "Open_vSwitch",
				map[string]any{"op": "update", "table": "Interface", "where": []any{}, "row": map[string]any{
					"external_ids": []any{"map", [][]string{{"iface-id", strconv.Itoa(n)}}},
				}},
				map[string]any{"op": "update", "table": "Port", "where": []any{}, "row": map[string]any{"tag": n}})
		}
	}()
	defer func() { <-finished }()
	for {
		v := o.view(t)
		if len(v.Interfaces) != ports+1 {
			t.Fatalf("%d interfaces, want %d", len(v.Interfaces), ports+1)
		}
		tag := v.Interfaces[0].Tag
		for _, i := range v.Interfaces {
			if i.Tag != tag || i.IfaceID != strconv.Itoa(int(tag)) {
				t.Fatalf("a View amid a transaction: %+v", v)
			}
		}
		if tag == rounds {
			return
		}
	}
}

// sansUUID compares Views without the UUIDs of rows and without values that follow external_ids.
var sansUUID = cmp.Options{cmp.Comparer(vswitch.Same), cmpopts.IgnoreUnexported(vswitch.View{})}

// Keys of external_ids that have no field, and the link, are followed without another View.
func TestColumnsWithoutView(t *testing.T) {
	t.Parallel()
	s := ovsdbtest.Start(t, schema)
	vsctl(t, s, strings.Fields("add-br br-int -- add-port br-int tap1 -- set Interface tap1 external_ids:vm-id=vm1 external_ids:a=b")...)
	o := observe(t, parse(t, s.Endpoint), nil)
	v := o.view(t)
	o.up(t)
	i := &v.Interfaces[1]
	if i.ExternalID("vm-id") != "vm1" || i.ExternalID("a") != "b" || i.ExternalID("none") != "" || (&vswitch.Interface{}).ExternalID("a") != "" {
		t.Errorf("got %q, %q, %q", i.ExternalID("vm-id"), i.ExternalID("a"), i.ExternalID("none"))
	}
	version, changed := v.ExternalIDsVersion()
	vsctl(t, s, "set", "Interface", "tap1", "external_ids:a=c", "external_ids:d=e")
	testkit.Eventually(t, "external_ids", func() bool { return i.ExternalID("a") == "c" && i.ExternalID("d") == "e" })
	select {
	case <-changed:
	case <-time.After(30 * time.Second):
		t.Fatal("nobody is told that external_ids have changed")
	}
	if next, _ := v.ExternalIDsVersion(); next == version {
		t.Error("external_ids have changed, and their version has not")
	}
	vsctl(t, s, "set", "Interface", "tap1", "link_state=down")
	testkit.Eventually(t, "the link is down", i.LinkDown)
	vsctl(t, s, "set", "Interface", "tap1", "link_state=up")
	testkit.Eventually(t, "the link is up", func() bool { return !i.LinkDown() })
	vsctl(t, s, "set", "Interface", "tap1", "type=internal")
	if next := o.view(t); next.Interfaces[1].Type != "internal" || next.Interfaces[1].ExternalID("a") != "c" {
		t.Errorf("the next View: %+v", next)
	} else {
		vsctl(t, s, "set", "Interface", "tap1", "link_state=down", "external_ids:a=d")
		internal := &next.Interfaces[1]
		testkit.Eventually(t, "the row has changed", func() bool { return internal.ExternalID("a") == "d" })
		if internal.LinkDown() {
			t.Error("the link of an internal interface is down, which ovs-vswitchd can't see")
		}
	}
}
