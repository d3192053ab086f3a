// SPDX-License-Identifier: Apache-2.0

package test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dnstap/golang-dnstap"
	"github.com/miekg/dns"
	"google.golang.org/protobuf/proto"

	"github.com/puntdns/puntdns/test/lab"
)

// note takes down what a frame tells of a query of a client.
func (t *tap) note(frame []byte) {
	var m dnstap.Dnstap
	q := new(dns.Msg)
	if proto.Unmarshal(frame, &m) == nil && m.GetMessage().GetType() == dnstap.Message_CLIENT_QUERY &&
		q.Unpack(m.GetMessage().GetQueryMessage()) == nil && len(q.Question) == 1 {
		t.extras.Store(q.Question[0].Name, string(m.GetExtra()))
	}
}

// extra returns the field extra of a query for that name, once it has come.
func (t *tap) extra(l *lab.Lab, name string) (extra string) {
	l.Eventually("dnstap of "+name, func() error {
		v, ok := t.extras.Load(name)
		if !ok {
			return errors.New("not heard of")
		}
		extra = v.(string)
		return nil
	})
	return extra
}

// projects are the external_ids that ML2/OVN writes for a port of a project.
func projects(l *lab.Lab, port, project string) {
	l.NBCTL("set", "Logical_Switch_Port", port, `external_ids:"neutron:project_id"=`+project, `external_ids:"k8s.ovn.org/network"=net-`+project,
		"external_ids:a-b.c_d="+project+"-x")
}

const labelTemplate = `template IN TXT who.example {
        answer "{{ .Name }} 60 IN TXT \"{{ .Meta \"ofpunt/external-id/neutron:project_id\" }} {{ .Meta \"ofpunt/router\" }}\""
        fallthrough
    }`

// Two tenants with equal addresses are told apart by the project that Neutron has written on
// their ports, and each plugin that reads labels has the values: template, rewrite, log and dnstap.
func TestLabelsOfProjects(t *testing.T) {
	t.Parallel()
	n := newOverlap(t)
	projects(n.Lab, "red-vm1", "p-red")
	projects(n.Lab, "blue-vm1", "p-blue")
	aclSwitch(n.Lab, "green", 3)
	green := aclGuest(n.Lab, "green", 3, 1)
	n.Sync()
	tap := newTap(t, filepath.Join(n.Dir, "tap.sock"))
	common := `ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
    }
    metadata
    errors
    log . "[{name} {/ofpunt/external-id/neutron:project_id} {/ofpunt/external-id/k8s.ovn.org/network} {/ofpunt/external-id/a-b.c_d} {/ofpunt/router}]"
    dnstap ` + tap.path + ` full {
        extra "{/ofpunt/port}={/ofpunt/external-id/neutron:project_id}"
    }
    ready ` + readyAddr + ` {
        monitor continuously
    }
`
	block := func(project, addr string) string {
		return `. {
    ` + common + `
    view v {
        expr metadata('ofpunt/external-id/neutron:project_id') == '` + project + `'
    }
    rewrite name regex ^me\.example\.$ {ofpunt/external-id/k8s.ovn.org/network}.example. metadata answer auto
    ovnhosts {
        southbound $SB
        fallthrough
    }
    cache
    ` + strings.ReplaceAll(labelTemplate, `{{ .Meta \"ofpunt/router\" }}`, "") + `
    hosts {
        ` + addr + ` who.example net-` + project + `.example
    }
}
`
	}
	s := serve(t, n.Lab, block("p-red", "192.0.2.1")+block("p-blue", "192.0.2.2")+`. {
    `+common+`
    rewrite edns0 local set 0xffee {ofpunt/external-id/neutron:project_id}
    ovnhosts {
        southbound $SB
        fallthrough
    }
    hosts {
        192.0.2.3 who.example
    }
}
`)
	for _, tt := range []struct {
		guest                 *lab.Guest
		addr, text, me, label string
	}{
		{n.red, "192.0.2.1", `NOERROR "p-red "`, "NOERROR 192.0.2.1", "p-red net-p-red p-red-x r-red"},
		{n.blue, "192.0.2.2", `NOERROR "p-blue "`, "NOERROR 192.0.2.2", "p-blue net-p-blue p-blue-x r-blue"},
		{green, "192.0.2.3", "", "", "   r-green"},
	} {
		for _, resolver := range resolvers {
			for _, q := range []struct {
				name  string
				qtype uint16
				want  string
			}{{"who.example.", dns.TypeA, "NOERROR " + tt.addr}, {"who.example.", dns.TypeTXT, tt.text}, {"me.example.", dns.TypeA, tt.me}} {
				if q.want == "" {
					continue
				}
				for range 2 { // the second one is from cache
					r, err := exchange(within(t, wait), tt.guest, resolver, q.name, q.qtype)
					if err != nil || inShort(r) != q.want {
						t.Errorf("%s asks %s for %s: %v, want %s: %v", tt.guest.Name, resolver, q.name, r, q.want, err)
					}
				}
			}
		}
		name := "tap-" + tt.guest.Name + ".example."
		if _, err := exchange(within(t, wait), tt.guest, resolver4, name, dns.TypeA); err != nil {
			t.Error(err)
		}
		project, _, _ := strings.Cut(tt.label, " ")
		if got, want := tap.extra(n.Lab, name), tt.guest.Port+"="+project; got != want {
			t.Errorf("dnstap of %s: %q, want %q", tt.guest.Name, got, want)
		}
		s.log(`\[` + name + " " + tt.label + `\]`)
	}
	s.endWell()
}

const routerCorefile = `. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
    }
    metadata
    view VIEW {
        expr metadata('ofpunt/router') == 'r-red' || 'r-vpc' in split(metadata('ofpunt/router'), ',')
    }
    ovnhosts {
        southbound $SB
        OVNHOSTS
        fallthrough
    }
    hosts {
        192.0.2.1 who.example
    }
    errors
    ready 127.0.0.1:8181 {
        monitor continuously
    }
}
. {
    ofpunt br-int
    metadata
    ovnhosts {
        southbound $SB
        OVNHOSTS
        fallthrough
    }
    hosts {
        192.0.2.2 who.example
    }
    errors
}
`

// The names of the routers follow what is attached, with the scope of a switch, which needs
// nothing of routers, and with that of a router.
func TestLabelsOfRouters(t *testing.T) {
	t.Parallel()
	n := newOverlap(t)
	for _, properties := range []string{"", "scope router", "northbound $NB", "monitor all"} {
		t.Run(properties, func(t *testing.T) {
			s := serve(t, n.Lab, strings.NewReplacer("VIEW", "vpc", "OVNHOSTS", properties).Replace(routerCorefile))
			s.t = t
			of := func(g *lab.Guest, want string) {
				t.Helper()
				expect(t, g, want, "who.example", "@"+resolver4, "+time=5")
			}
			const own, other = "NOERROR 192.0.2.1", "NOERROR 192.0.2.2"
			of(n.red, own)
			of(n.blue, other)
			for _, change := range []struct {
				name, want string
				commit     func()
			}{
				{"another router joins", own, func() {
					n.AddRouter("r-vpc", lab.RouterPort{Switch: "blue", MAC: "02:00:00:00:09:01", Networks: []string{"10.0.1.2/24"}})
				}},
				{"it has another name", other, func() { n.NBCTL("set", "Logical_Router", "r-vpc", "name=r-none") }},
				{"and its own again", own, func() { n.NBCTL("set", "Logical_Router", "r-none", "name=r-vpc") }},
				{"it is detached", other, func() { n.NBCTL("lsp-del", "blue-r-vpc") }},
			} {
				follows(t, n.blue, "who.example.", dns.TypeA, change.want, change.commit)
				of(n.red, own)
			}
			n.NBCTL("lr-del", "r-vpc")
			s.endWell()
		})
	}
}

const groupCorefile = `. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
    }
    metadata
    log . "[{name} {/ofpunt/port} {/ofpunt/group}]"
    view web {
        expr 'web' in split(metadata('ofpunt/group'), ',')
    }
    ovnhosts {
        southbound $SB
        OVNHOSTS
        fallthrough
    }
    hosts {
        192.0.2.1 who.example
    }
    errors
    ready 127.0.0.1:8181 {
        monitor continuously
    }
}
. {
    ofpunt br-int
    metadata
    ovnhosts {
        southbound $SB
        OVNHOSTS
        fallthrough
    }
    egress {
        strict on
        policy ofpunt/group sealed {
            allow allowed.example
        }
    }
    hosts {
        192.0.2.2 who.example
    }
    errors
}
`

// A view, a policy of egress and the log follow the port groups of a guest. The other tenant's guest, which has the
// same addresses, keeps its own.
func TestLabelsOfGroups(t *testing.T) {
	t.Parallel()
	n := newOverlap(t)
	for _, properties := range []string{"", "northbound $NB", "monitor all"} {
		t.Run(properties, func(t *testing.T) {
			n.NBCTL("pg-add", "web", n.red.Port, "--", "pg-add", "sealed")
			s := serve(t, n.Lab, strings.ReplaceAll(groupCorefile, "OVNHOSTS", properties))
			s.t = t
			const web, other, denied = "NOERROR 192.0.2.1", "NOERROR 192.0.2.2", "NXDOMAIN"
			of := func(g *lab.Guest, want string) {
				t.Helper()
				expect(t, g, want, "who.example", "@"+resolver4, "+time=5")
			}
			of(n.red, web)
			of(n.blue, other)
			for _, change := range []struct {
				name, want, red string
				args            []string
			}{
				{"joins", web, web, []string{"pg-set-ports", "web", n.red.Port, n.blue.Port}},
				{"leaves", other, web, []string{"pg-set-ports", "web", n.red.Port}},
				{"joins a group with a policy", denied, web, []string{"pg-set-ports", "sealed", n.blue.Port}},
				{"takes the other's place", web, other, []string{"pg-set-ports", "web", n.blue.Port}},
				{"the group goes", denied, other, []string{"pg-del", "web"}},
			} {
				follows(t, n.blue, "who.example.", dns.TypeA, change.want, func() { n.NBCTL(change.args...) })
				of(n.red, change.red)
			}
			s.log(`\[who\.example\. ` + n.blue.Port + ` sealed,web\]`)
			n.NBCTL("pg-del", "sealed")
			s.endWell()
		})
	}
}

// A reload to a Corefile with other labels gives no query the block of somebody else, from the
// first one on.
func TestLabelsReloadUnderLoad(t *testing.T) {
	t.Parallel()
	n := newOverlap(t)
	projects(n.Lab, "red-vm1", "p-red")
	projects(n.Lab, "blue-vm1", "p-blue")
	n.NBCTL("pg-add", "g_red", "red-vm1", "--", "pg-add", "g_blue", "blue-vm1")
	n.Sync()
	by := func(expr, ovnhosts string) string {
		text := ""
		for _, tenant := range []struct{ name, addr string }{{"red", "192.0.2.1"}, {"blue", "192.0.2.2"}, {"", "192.0.2.9"}} {
			view := ""
			if tenant.name != "" {
				view = "view " + tenant.name + " {\n expr " + strings.ReplaceAll(expr, "TENANT", tenant.name) + "\n }"
			}
			text += `. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
        rate off
    }
    metadata
    ` + view + `
    ovnhosts {
        southbound $SB
        ` + ovnhosts + `
        fallthrough
    }
    hosts {
        ` + tenant.addr + ` who.example
    }
    errors
    ready ` + readyAddr + ` {
        monitor continuously
    }
}
`
		}
		return corefile(n.Lab, text)
	}
	const bySwitch = "metadata('ofpunt/switch') == 'TENANT'"
	s := serve(t, n.Lab, by(bySwitch, ""))
	var asking []*questioner
	for _, resolver := range resolvers {
		asking = append(asking, questions(t, n.red, resolver), questions(t, n.blue, resolver))
	}
	stop := askInTurn(t, "who.example.", asking, []string{"NOERROR 192.0.2.1", "NOERROR 192.0.2.2", "NOERROR 192.0.2.1", "NOERROR 192.0.2.2"})
	defer stop()
	for _, corefile := range []string{
		by("metadata('ofpunt/external-id/neutron:project_id') == 'p-TENANT'", ""),
		by("metadata('ofpunt/external-id/k8s.ovn.org/network') == 'net-p-TENANT'", ""),
		by("metadata('ofpunt/router') == 'r-TENANT'", ""),
		by("metadata('ofpunt/group') == 'g_TENANT'", ""),
		by(bySwitch, ""),
		by("metadata('ofpunt/router') == 'r-TENANT' && metadata('ofpunt/external-id/a-b.c_d') == 'p-TENANT-x'", ""),
		by("metadata('ofpunt/external-id/neutron:project_id') == 'p-TENANT'", "monitor all"),
		by("metadata('ofpunt/external-id/a-b.c_d') == 'p-TENANT-x'", "monitor all"),
		by("metadata('ofpunt/group') == 'g_TENANT'", "monitor all"),
		by("metadata('ofpunt/router') == 'r-TENANT'", "northbound $NB"),
		by("metadata('ofpunt/group') == 'g_TENANT'", "northbound $NB"),
	} {
		s.reload(corefile)
	}
	s.ready(200)
}

// Without OVN's databases the keys are those of the local Interface, and follow at once.
func TestLabelsOfInterfaces(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Options{Plain: true})
	l.Node.OFCTL("add-flow", lab.Bridge, "table=0,priority=1,actions=NORMAL")
	red, blue := plainGuest(l, "red-vm", "net-a", 11, 1), plainGuest(l, "blue-vm", "net-a", 12, 1)
	l.Node.VSCTL("set", "Interface", red.NodePort, "external_ids:vm-uuid=vm-1")
	s := serve(t, l, `. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
        placement neutron
    }
    metadata
    log . "[{name} {/ofpunt/external-id/iface-id} {/ofpunt/external-id/none}]"
    view vm {
        expr metadata('ofpunt/external-id/vm-uuid') == 'vm-1' || metadata('ofpunt/external-id/owner') == 'a'
    }
    hosts {
        192.0.2.1 who.example
    }
    errors
    ready `+readyAddr+` {
        monitor continuously
    }
}
. {
    ofpunt br-int
    hosts {
        192.0.2.2 who.example
    }
    errors
}
`)
	for g, want := range map[*lab.Guest]string{red: "NOERROR 192.0.2.1", blue: "NOERROR 192.0.2.2"} {
		for _, resolver := range resolvers {
			expect(t, g, want, "who.example", "@"+resolver, "+time=5")
		}
	}
	s.log(`\[who\.example\. red-vm \]`)
	follows(t, blue, "who.example.", dns.TypeA, "NOERROR 192.0.2.1", func() {
		l.Node.VSCTL("set", "Interface", blue.NodePort, "external_ids:owner=a")
	})
	s.endWell()
}
