// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"encoding/binary"
	"strconv"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// The logical flow of an ACL is found by what a trace shows of its flow: with a port group, ovn-northd makes one flow
// for the datapaths of both switches.
func TestFindFlow(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.startNorthd()
	r.build(twoTenants)
	acl := r.nbctl(`--id=@a create ACL direction=from-lport priority=2000 match="udp.dst~==~53" action=drop -- add Logical_Switch red acls @a`)
	shared := r.nbctl(`--id=@a create ACL direction=from-lport priority=2001 match="tcp.dst~==~53" action=drop -- --id=@g create Port_Group name=all acls=@a -- add Port_Group all ports ` +
		r.nbctl("get Logical_Switch_Port r1 _uuid") + " -- add Port_Group all ports " + r.nbctl("get Logical_Switch_Port b1 _uuid"))
	shared, _, _ = strings.Cut(shared, "\n")
	r.nbctl("--wait=sb sync")
	red, err := ovsdb.ParseUUID(r.nbctl("get Logical_Switch red _uuid"))
	if err != nil {
		t.Fatal(err)
	}
	network := origin.Network(red)
	s := r.acquire(r.config(true, false))
	s.nameChassis("hv1")
	defer s.Request(Requests{Network: ovn.SwitchRef{Name: "red"}})()
	eventually(t, s, func(s *ovn.Snapshot) string {
		if s.Network(network) == nil {
			return "red is not read"
		}
		return ""
	})
	for row, hasMatch := range map[string]string{acl: "udp.dst == 53", shared: "tcp.dst == 53"} {
		hint := row[:8]
		id, err := ovsdb.ParseUUID(r.sbctl("--bare --columns=_uuid find Logical_Flow external_ids:stage-hint=" + hint + " pipeline=ingress"))
		if err != nil {
			t.Fatal(err)
		}
		number := func(column string) int {
			n, err := strconv.Atoi(r.sbctl("get Logical_Flow " + id.String() + " " + column))
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		k := ovn.FlowKey{Network: network, Table: 8 + number("table_id"), Priority: number("priority"), Cookie: binary.BigEndian.Uint32(id[:4])}
		f, found, err := s.FindFlow(t.Context(), k)
		if err != nil || !found || f.Row != id || f.Hint != hint || !strings.HasPrefix(f.Stage, "ls_in_acl") || !strings.Contains(f.Match, hasMatch) || f.Actions == "" {
			t.Errorf("%+v: %+v, found %v, %v", k, f, found, err)
		}
		for _, other := range []func(*ovn.FlowKey){func(k *ovn.FlowKey) { k.Cookie++ }, func(k *ovn.FlowKey) { k.Priority++ }, func(k *ovn.FlowKey) { k.Network[0]++ }} {
			k := k
			other(&k)
			if f, found, err := s.FindFlow(t.Context(), k); found || err != nil {
				t.Errorf("%+v: %+v, %v", k, f, err)
			}
		}
	}
	// Northbound alone has no logical flows.
	nb := r.acquire(r.config(false, true))
	if _, found, err := nb.FindFlow(t.Context(), ovn.FlowKey{}); found || err != nil {
		t.Error(found, err)
	}
}
