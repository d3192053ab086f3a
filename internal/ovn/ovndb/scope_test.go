// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/puntdns/puntdns/internal/ovn"
)

// attach makes the ovn-nbctl command that joins switches to a router.
func attach(router string, switches ...string) string {
	var all []string
	for _, s := range switches {
		port := s + "-" + router
		all = append(all, fmt.Sprintf("lrp-add %s r-%s 02:00:00:00:00:01 10.9.0.1/24", router, port),
			fmt.Sprintf("lsp-add %s %s -- lsp-set-type %s router -- lsp-set-addresses %s router -- lsp-set-options %s router-port=r-%s", s, port, port, port, port, port))
	}
	return strings.Join(all, " -- ")
}

// joined are the names of the networks in a scope, sorted but for the first.
func joined(s *ovn.Snapshot, network string) string {
	n := s.NetworkByName(network)
	if n == nil {
		return "not known"
	}
	scope := s.RouterScope(n.ID)
	if scope.Own == nil {
		return "no scope"
	}
	if scope.Union() == nil {
		return scope.Own.Name
	}
	var others []string
	for id := range scope.Union().All() {
		if other := s.Network(id); other != scope.Own {
			others = append(others, other.Name)
		}
	}
	slices.Sort(others)
	return strings.Join(append([]string{scope.Own.Name}, others...), " ")
}

// TestRouterScope: what northd makes of routers, gateway routers, a provider's
// network, a transit switch and routers side by side, and changes to that.
func TestRouterScope(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.startNorthd()
	switches := []string{"a", "b", "c", "d", "ext", "e1", "e2", "transit", "f1", "f2", "g"}
	for i, s := range switches {
		r.nbctl(fmt.Sprintf("ls-add %s -- lsp-add %s vm-%s -- lsp-set-addresses vm-%s 02:00:00:00:01:%02d~10.0.0.%d -- lsp-set-options vm-%s hostname=own-%s", s, s, s, s, i, i, s, s))
	}
	for _, router := range []string{"r1", "r2", "re1", "re2", "rf1", "rf2"} {
		r.nbctl("lr-add " + router)
	}
	r.nbctl("lsp-add ext phys -- lsp-set-type phys localnet -- lsp-set-addresses phys unknown -- lsp-set-options phys network_name=phys")
	r.nbctl(attach("r1", "a", "b", "ext"))
	r.nbctl("set Logical_Router r2 options:chassis=hv1")
	r.nbctl(attach("r2", "c", "d", "ext"))
	r.nbctl("lrp-set-gateway-chassis r-ext-r1 hv1")
	r.nbctl(attach("re1", "e1", "transit") + " -- " + attach("re2", "e2", "transit"))
	r.nbctl(attach("rf1", "f1") + " -- " + attach("rf2", "f2"))
	r.nbctl("lrp-add rf1 f12 02:00:00:00:00:01 10.8.0.1/24 peer=f21 -- lrp-add rf2 f21 02:00:00:00:00:01 10.8.0.2/24 peer=f12")
	r.nbctl("--wait=sb sync")
	r.sbctl("chassis-add hv1 geneve 127.0.0.1")
	var here []string
	for _, g := range []string{"a", "c", "e1", "ext", "f1", "g"} {
		r.sbctl("lsp-bind vm-" + g + " hv1")
		here = append(here, "vm-"+g)
	}

	readings := r.joinedReadings(here)
	// What each scope is; who is not mentioned has none but in "all".
	steps := []struct {
		name, command string
		scopes        []string
	}{
		{"initial", "", []string{"a b", "c d", "ext", "e1 e2 transit", "f1 f2", "g"}},
		{"one more", attach("r1", "g"), []string{"a b g", "c d", "ext", "e1 e2 transit", "f1 f2", "g a b"}},
		{"on two routers", attach("r2", "b"), []string{"a b c d g", "c a b d g", "ext", "e1 e2 transit", "f1 f2"}},
		{"a localnet port between", "lsp-add b phys-b -- lsp-set-type phys-b localnet -- lsp-set-addresses phys-b unknown -- lsp-set-options phys-b network_name=phys",
			[]string{"a g", "c d", "ext", "e1 e2 transit", "f1 f2", "g a"}},
		{"it goes", "lsp-del phys-b", []string{"a b c d g", "c a b d g", "ext", "e1 e2 transit", "f1 f2"}},
		{"off the second router", "lsp-del b-r2", []string{"a b g", "c d", "ext"}},
		{"routers that are peers no more", "lrp-del f21", []string{"f1", "e1 e2 transit"}},
		{"a router goes", "lr-del re2", []string{"e1 transit"}},
		{"the switch between goes", "ls-del transit", []string{"e1"}},
		{"a router's last", "lr-del r1", []string{"a", "g", "c d", "ext"}},
	}
	for _, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			if step.command != "" {
				r.nbctl("--wait=sb " + step.command)
			}
			for _, reading := range readings {
				eventually(t, reading.source, func(s *ovn.Snapshot) string {
					var wrong []string
					want := map[string]bool{}
					for _, scope := range step.scopes {
						own, _, _ := strings.Cut(scope, " ")
						if got := joined(s, own); got != scope {
							wrong = append(wrong, fmt.Sprintf("%s: got %q, want %q", reading.name, got, scope))
							continue
						}
						for _, name := range strings.Fields(scope) {
							want[name] = true
						}
						sc := s.RouterScope(s.NetworkByName(own).ID)
						for i, other := range switches {
							answer := "none"
							if slices.Contains(strings.Fields(scope), other) {
								answer = fmt.Sprintf("10.0.0.%d", i)
							}
							if got := ovn.ShowLookup(sc, "own-"+other+".", ""); got != answer {
								wrong = append(wrong, fmt.Sprintf("%s: %s asks for %s: got %q, want %q", reading.name, own, other, got, answer))
							}
							if got := ovn.ShowLookup(s.SwitchScope(sc.Own.ID), "own-"+other+".", ""); other != own && got != "none" {
								wrong = append(wrong, fmt.Sprintf("%s: %s asks for %s in the scope of a switch: got %q", reading.name, own, other, got))
							}
						}
					}
					// Nothing is read but what the guests here need.
					if reading.local && step.name == "initial" {
						if got := networks(s); got != "a b c d e1 e2 ext f1 f2 g transit" {
							wrong = append(wrong, reading.name+": networks "+got)
						}
					}
					if got := guests(s); got != strings.Join(here, " ") {
						wrong = append(wrong, fmt.Sprintf("%s: guests %s", reading.name, got))
					}
					return strings.Join(wrong, "\n")
				})
			}
		})
	}
}

// TestRequestRouters: guests are those with a whole scope, from when it is wanted
// until it is not, and what is joined is read for no longer.
func TestRequestRouters(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.startNorthd()
	for _, s := range []string{"a", "b", "c", "d"} {
		r.nbctl(fmt.Sprintf("ls-add %s -- lsp-add %s vm-%s -- lsp-set-options vm-%s hostname=vm-%s", s, s, s, s, s))
	}
	r.nbctl("lr-add r -- lr-add r2 -- " + attach("r", "a", "b") + " -- " + attach("r2", "b", "d"))
	r.nbctl("--wait=sb sync")
	r.sbctl("chassis-add hv1 geneve 127.0.0.1 -- lsp-bind vm-a hv1")
	for name, c := range map[string]Config{"southbound": r.config(true, false), "both": r.config(true, true), "northbound": r.config(false, true)} {
		t.Run(name, func(t *testing.T) {
			s := r.acquire(c)
			s.nameChassis("hv1")
			s.as("br").setPorts([]string{"vm-a"}, 0)
			are := func(want string) {
				t.Helper()
				narrow(s)
				eventually(t, s, func(s *ovn.Snapshot) string {
					got := fmt.Sprintf("%s: %s: %s", networks(s), guests(s), joined(s, "a"))
					if got != want {
						return fmt.Sprintf("got %q, want %q", got, want)
					}
					return ""
				})
			}
			are("a: vm-a: no scope")
			// A scope is there as a whole or not at all.
			stop, watched := make(chan struct{}), sync.WaitGroup{}
			watched.Go(func() {
				for {
					changed := s.Changed()
					snapshot := s.Snapshot()
					if got := joined(snapshot, "a"); got != "not known" && got != "no scope" && got != "a b d" {
						t.Errorf("the scope is %q", got)
					}
					select {
					case <-changed:
					case <-stop:
						return
					}
				}
			})
			release, also := s.Request(Requests{Routers: true}), s.Request(Requests{Routers: true})
			are("a b d: vm-a: a b d")
			s.nameChassis("hv2")
			s.as("br").setPorts(nil, 0)
			are(": : not known")
			s.nameChassis("hv1")
			s.as("br").setPorts([]string{"vm-a"}, 0)
			are("a b d: vm-a: a b d")
			close(stop)
			watched.Wait()
			release()
			release()
			releaseName := s.Request(Requests{Network: ovn.SwitchRef{Name: "c"}})
			are("a b c d: vm-a: a b d")
			also()
			are("a c: vm-a: no scope")
			releaseName()
			are("a: vm-a: no scope")
		})
	}
}

// greenRows are a third network that the router of routerRows joins, behind another router.
const greenRows = `
	sb insert Datapath_Binding green tunnel_key=3 external_ids=name:green,logical-switch:@green
	sb insert Datapath_Binding r2 tunnel_key=10 external_ids=name:r2,logical-router:@r2
	sb insert Port_Binding g1 logical_port=g1 datapath=@green tunnel_key=1 chassis=@c2 options=hostname:vm3 mac=02:00:00:00:00:03~10.0.0.3
	sb insert Port_Binding green-r2 logical_port=green-r2 datapath=@green tunnel_key=8 type=patch options=peer:r2-green
	sb insert Port_Binding r2-green logical_port=r2-green datapath=@r2 tunnel_key=1 type=patch options=peer:green-r2
	sb insert Port_Binding blue-r2 logical_port=blue-r2 datapath=@blue tunnel_key=9 type=patch options=peer:r2-blue
	sb insert Port_Binding r2-blue logical_port=r2-blue datapath=@r2 tunnel_key=2 type=patch options=peer:blue-r2
`

// aloneRows are a fourth network, with a guest of this chassis and no router.
const aloneRows = `
	sb insert Datapath_Binding alone tunnel_key=4 external_ids=name:alone,logical-switch:@alone
	sb insert Port_Binding a1 logical_port=a1 datapath=@alone tunnel_key=1 chassis=@c1 options=hostname:vm4 mac=02:00:00:00:00:04~10.0.0.4
`

// northboundRouter joins red and blue, the switches of twoNetworks.
const northboundRouter = `
	nb insert Logical_Switch red name=red ports=@lsp-r1,@lsp-red-r
	nb insert Logical_Switch_Port lsp-r1 name=r1 options=hostname:vm1 addresses=02:00:00:00:00:01~10.0.0.1
	nb insert Logical_Switch_Port lsp-red-r name=red-r type=router options=router-port:r-red
	nb insert Logical_Switch blue name=blue ports=@lsp-b1,@lsp-blue-r
	nb insert Logical_Switch_Port lsp-b1 name=b1 options=hostname:vm2 addresses=02:00:00:00:00:01~10.0.0.9
	nb insert Logical_Switch_Port lsp-blue-r name=blue-r type=router options=router-port:r-blue
	nb insert Logical_Router r ports=@r-red,@r-blue
	nb insert Logical_Router_Port r-red name=r-red
	nb insert Logical_Router_Port r-blue name=r-blue
`

// Who is served stays so, with the names of his own network, while it is read what routers
// join to that, however many changes of the conditions it takes. A snapshot is settled
// only then.
func TestJoinWhileServing(t *testing.T) {
	for _, tt := range []struct {
		name    string
		monitor Monitor
		script  string
	}{
		{"Southbound", Local, twoNetworks + aloneRows + `
			sb insert Port_Binding red-r logical_port=red-r datapath=@red tunnel_key=8 type=patch options=peer:r-red
			chassis hv1
			sb tells
			has networks=alone,red guests=a1,r1 settled=true scope:red=no~scope
			sb holds
			join
			has networks=alone,red guests=a1,r1 settled=false scope:red=no~scope
			sb insert Port_Binding r-red logical_port=r-red datapath=@r tunnel_key=1 type=patch options=peer:red-r
			sb tells
			sb acknowledges once
			has guests=a1,r1 settled=false scope:red=no~scope scope:alone=alone
			looks up red vm1. = 10.0.0.1
			looks up red db.test. = 10.0.0.20
			sb insert Datapath_Binding r tunnel_key=9 external_ids=name:r,logical-router:@r
			sb insert Port_Binding r-blue logical_port=r-blue datapath=@r tunnel_key=2 type=patch options=peer:blue-r
			sb tells
			sb acknowledges once
			has guests=a1,r1 settled=false scope:red=no~scope
			sb insert Port_Binding blue-r logical_port=blue-r datapath=@blue tunnel_key=8 type=patch options=peer:r-blue
			sb tells
			sb acknowledges once
			has networks=alone,red guests=a1,r1 settled=false scope:red=no~scope
			sb acknowledges
			has networks=alone,blue,red guests=a1,r1 settled=true scope:red=red,blue scope:alone=alone
			release
			has guests=a1,r1 settled=true scope:red=no~scope`},
		{"both", Local, twoNetworks + routerRows + northboundRows + `
			chassis hv1
			nb insert DHCP_Options dhcp options=domain_name:dhcp.test
			nb tells
			sb tells
			has guests=r1 settled=true
			nb holds
			join
			has networks=red guests=r1 settled=false scope:red=no~scope
			looks up red vm1.dhcp.test. = 10.0.0.1
			nb acknowledges once
			has guests=r1
			looks up red vm1.dhcp.test. = 10.0.0.1
			nb acknowledges
			has networks=blue,red guests=r1 settled=true scope:red=red,blue
			looks up red vm1.dhcp.test. = 10.0.0.1`},
		{"Northbound alone", Local, northboundRouter + `
			plug r1
			nb tells
			has networks=blue,red guests=r1 settled=true
			nb holds
			join
			has guests=r1 settled=false scope:red=no~scope
			looks up red vm1. = 10.0.0.1
			nb acknowledges
			has guests=r1 settled=true scope:red=red,blue`},
		{"everything is read", All, twoNetworks + routerRows + `
			chassis hv1
			sb tells
			has guests=r1 settled=true scope:red=no~scope
			join
			has guests=r1 settled=true scope:red=red,blue`},
		{"it is taken back before all is read", Local, twoNetworks + routerRows + `
			chassis hv1
			sb tells
			has guests=r1 settled=true
			sb holds
			join
			has guests=r1 settled=false
			release
			sb acknowledges
			has guests=r1 settled=true scope:red=no~scope`},
		{"it is taken back in an outage", Local, twoNetworks + routerRows + `
			chassis hv1
			sb tells
			has guests=r1 settled=true
			sb goes away
			join
			has guests=r1 settled=false
			release
			has guests=r1 settled=true
			network blue
			has guests=r1 settled=false
			release
			has guests=r1 settled=true
			join
			has guests=r1 settled=false`},
		{"it is taken back in an outage, Northbound alone", Local, northboundRouter + `
			plug r1
			nb tells
			has guests=r1 settled=true
			nb goes away
			join
			has guests=r1 settled=false
			release
			has guests=r1 settled=true`},
		{"no more is wanted, and that is not acknowledged", Local, twoNetworks + routerRows + `
			chassis hv1
			join
			sb tells
			has guests=r1 settled=true scope:red=red,blue
			sb goes away
			release
			has guests=r1 settled=true scope:red=no~scope
			join
			has guests=r1 settled=true scope:red=red,blue # what was read is still asked for
			release
			network green
			has guests=r1 settled=false
			release
			has guests=r1 settled=true
			join
			has guests=r1 settled=false # the rows may be going`},
		{"no more is wanted, Northbound alone", Local, northboundRouter + `
			plug r1
			join
			nb tells
			has guests=r1 settled=true
			nb goes away
			release
			has guests=r1 settled=true`},
		{"a guest that comes meanwhile", Local, twoNetworks + routerRows + `
			chassis hv1
			sb tells
			has guests=r1 settled=true
			sb holds
			join
			has guests=r1
			` + aloneRows + `
			sb tells
			has guests=r1 settled=false # his own network is not read yet
			sb acknowledges
			has guests=a1,r1 settled=true scope:red=red,blue scope:alone=alone`},
		{"a guest that comes later", Local, twoNetworks + routerRows + `
			chassis hv1
			join
			sb tells
			has guests=r1 settled=true scope:red=red,blue
			sb holds
			` + aloneRows + `
			sb tells
			has guests=r1 settled=false
			sb acknowledges
			has guests=a1,r1 settled=true`},
	} {
		t.Run(tt.name, func(t *testing.T) { runScript(t, tt.monitor, tt.script) })
	}
}

// A guest that is kept while Southbound is empty has the scope of his network alone, if nobody
// has asked for more before: there are no rows to tell it. It widens when they come back.
func TestJoinWhileKept(t *testing.T) {
	for _, monitor := range []Monitor{Local, All} {
		t.Run(map[Monitor]string{All: "all", Local: "local"}[monitor], func(t *testing.T) {
			runScript(t, monitor, twoNetworks+routerRows+`
				chassis hv1
				plug r1
				sb tells
				has guests=r1 settled=true scope:red=no~scope
				sb breaks
				sb tells
				has guests=r1 kept=1 settled=true scope:red=no~scope
				join
				has guests=r1 kept=1 settled=true scope:red=red scoped=true
				looks up red db.test. = 10.0.0.20
				sb breaks
				`+twoNetworks+routerRows+`
				sb tells
				has guests=r1 kept=0 settled=true scope:red=red,blue scoped=true`)
		})
	}
}

// A network that routers come to join later comes in as a whole. Until then those who are
// served stay so, with all names that they had.
func TestAttachWhileServing(t *testing.T) {
	for _, tt := range []struct {
		name    string
		monitor Monitor
		script  string
	}{
		{"Southbound", Local, twoNetworks + `
			chassis hv1
			join
			sb tells
			has networks=red guests=r1 settled=true scope:red=red
			sb holds
			` + routerRows + `
			sb tells
			has guests=r1 settled=false scope:red=red
			looks up red db.test. = 10.0.0.20
			sb acknowledges
			has networks=blue,red guests=r1 settled=true scope:red=red,blue
			sb holds
			` + greenRows + `
			sb tells
			has guests=r1 scope:red=red,blue
			sb acknowledges
			has guests=r1 settled=true scope:red=red,blue,green
			looks up red vm1. = 10.0.0.1`},
		{"two that are served", Local, twoNetworks + `
			chassis hv1
			join
			` + strings.ReplaceAll(twoNetworks, "b1 datapath=@blue tunnel_key=1 chassis=@c2", "b1 datapath=@blue tunnel_key=1 chassis=@c1") + `
			sb tells
			has networks=blue,red guests=b1,r1 settled=true scope:red=red scope:blue=blue
			sb holds
			` + routerRows + `
			sb tells
			has guests=b1,r1 scope:red=red scope:blue=blue
			looks up red vm1. = 10.0.0.1
			looks up blue vm1. = 10.0.0.9
			sb acknowledges
			has guests=b1,r1 settled=true scope:red=red,blue scope:blue=blue,red`},
		{"both", Local, twoNetworks + northboundRows + `
			chassis hv1
			join
			nb insert DHCP_Options dhcp options=domain_name:dhcp.test
			nb tells
			sb tells
			has networks=red guests=r1 settled=true scope:red=red
			nb holds
			` + routerRows + `
			sb tells
			has guests=r1 settled=false scope:red=red
			looks up red vm1.dhcp.test. = 10.0.0.1
			nb acknowledges
			has networks=blue,red guests=r1 settled=true scope:red=red,blue`},
	} {
		t.Run(tt.name, func(t *testing.T) { runScript(t, tt.monitor, tt.script) })
	}
}

// What is wanted later is not known at once: a snapshot from before that says that all is
// must not stand while the next one is put off.
func TestRequestsUnsettle(t *testing.T) {
	for _, tt := range []struct {
		name     string
		monitor  Monitor
		requests Requests
	}{
		{"routers", Local, Requests{Routers: true}},
		{"a network", Local, Requests{Network: ovn.SwitchRef{Name: "blue"}}},
		{"routers, all is read", All, Requests{Routers: true}},
		{"a network, all is read", All, Requests{Network: ovn.SwitchRef{Name: "blue"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			for _, command := range twoTenants {
				r.nbctl(command)
			}
			c := r.config(false, true)
			c.Monitor = tt.monitor
			s := r.acquire(c)
			s.as("br").setPorts([]string{"r1"}, 0)
			settled := func(s *ovn.Snapshot) string {
				if !s.Settled {
					return "not yet"
				}
				return ""
			}
			eventually(t, s, settled)
			s.mu.Lock()
			s.notBefore = time.Now().Add(time.Minute) // as after a long rebuild
			s.mu.Unlock()
			release := s.Request(tt.requests)
			if s.Snapshot().Settled {
				t.Error("settled as soon as more is wanted")
			}
			s.mu.Lock()
			if s.rebuildTimer != nil {
				s.rebuildTimer.Stop()
			}
			s.rebuildTimer, s.notBefore = nil, time.Time{}
			s.update()
			s.mu.Unlock()
			eventually(t, s, settled)
			// Whoever asks for the same again has it.
			also := s.Request(tt.requests)
			if !s.Snapshot().Settled {
				t.Error("not settled though nothing more is wanted")
			}
			also()
			release()
			eventually(t, s, settled)
		})
	}
}

// The log tells once that no network has a name that is wanted, when all that could have it
// has been read, and that there is one.
func TestNameWanted(t *testing.T) {
	for _, monitor := range []Monitor{Local, All} {
		for _, tt := range []struct{ name, script string }{
			{"never there", `
				network blue
				has told=0,missing,0,there # nothing has been read
				` + aloneRows + `
				sb tells
				has told=1,missing,0,there
				sb modify Port_Binding a1 tunnel_key=2
				sb tells
				has told=1,missing,0,there
				network blue
				has told=1,missing,0,there`},
			{"it comes, goes and comes", aloneRows + `
				network blue
				sb tells
				has told=1,missing,0,there
				sb insert Datapath_Binding blue tunnel_key=2 external_ids=name:blue,logical-switch:@blue
				sb tells
				has told=1,missing,1,there
				sb delete Datapath_Binding blue
				sb tells
				has told=2,missing,1,there
				sb insert Datapath_Binding blue tunnel_key=2 external_ids=name:blue,logical-switch:@blue
				sb tells
				has told=2,missing,2,there`},
			{"there", twoNetworks + `
				network blue
				sb tells
				has told=0,missing,0,there`},
			{"wanted later", twoNetworks + `
				sb tells
				network nosuch
				has told=1,missing,0,there
				release
				has told=1,missing,0,there
				network nosuch
				has told=2,missing,0,there`},
			{"Northbound as well", twoNetworks + northboundRows + `
				network blue
				sb tells
				has told=0,missing,0,there # Northbound has told nothing
				nb insert DHCP_Options dhcp options=domain_name:dhcp.test
				nb tells
				has told=0,missing,0,there`},
		} {
			t.Run(fmt.Sprintf("%s, monitor %d", tt.name, monitor), func(t *testing.T) { runScript(t, monitor, tt.script) })
		}
	}
	runScript(t, Local, aloneRows+`
		sb holds
		network blue
		sb tells
		has told=0,missing,0,there # the datapath may come with the conditions
		sb acknowledges
		has told=1,missing,0,there`)
}

// TestScopeOrder: the asker's own network answers first, then the others in the
// order of their UUIDs, each as a whole.
func TestScopeOrder(t *testing.T) {
	r := newRig(t)
	router := r.sbctl("create Datapath_Binding tunnel_key=9 external_ids:name=r external_ids:logical-router=" + rowID(9))
	for i, uuid := range []string{uuidA, uuidB, uuidC} {
		dp := r.insertSwitch(fmt.Sprintf("s%d", i), uuid, i+1)
		r.sbctl(fmt.Sprintf("create Port_Binding logical_port=s%d-r tunnel_key=1 datapath=%s type=patch options:peer=r-s%d", i, dp, i))
		r.sbctl(fmt.Sprintf("create Port_Binding logical_port=r-s%d tunnel_key=%d datapath=%s type=patch options:peer=s%d-r", i, i+1, router, i))
		records := []string{
			`{all="10.0.0.1",late="10.0.0.1",*.w="10.0.0.1"}`,
			`{all="10.0.0.2",two="10.0.0.2",x.w="10.0.0.2",deep.ent="10.0.0.2"}`,
			`{all="fd00::3",two="10.0.0.3",late="10.0.0.3",77.0.0.10.in-addr.arpa="c.test",ent="10.0.0.3"}`,
		}[i]
		r.sbctl("create DNS datapaths=" + dp + " records=" + records)
	}
	c := r.config(true, false)
	c.Monitor = All
	s := r.acquire(c)
	defer s.Request(Requests{Routers: true})()
	eventually(t, s, func(s *ovn.Snapshot) string {
		var wrong []string
		for _, line := range strings.Split(strings.TrimSpace(`
			s0 all. = 10.0.0.1
			s1 all. = 10.0.0.2
			s2 all. = fd00::3
			s0 two. = 10.0.0.2
			s2 two. = 10.0.0.3
			s1 late. = 10.0.0.1
			s0 x.w. = 10.0.0.1
			s1 x.w. = 10.0.0.2
			s2 x.w. = 10.0.0.1
			s2 w. = empty
			s0 ent. = 10.0.0.3
			s1 none. = none
			s0 77.0.0.10.in-addr.arpa. = c.test.
			s0 2.0.0.10.in-addr.arpa. = deep.ent. x.w.
			s1 1.0.0.10.in-addr.arpa. = all. late.`), "\n") {
			question, want, _ := strings.Cut(strings.TrimSpace(line), " = ")
			own, name, _ := strings.Cut(question, " ")
			n := s.NetworkByName(own)
			if n == nil {
				return "no " + own
			}
			if got := ovn.ShowLookup(s.RouterScope(n.ID), name, ""); got != want {
				wrong = append(wrong, fmt.Sprintf("%s: got %q, want %q", question, got, want))
			}
		}
		return strings.Join(wrong, "\n")
	})
}

// TestPeers: what joins is two ports that name each other; a port whose other end
// is not there joins nothing and keeps nobody waiting.
func TestPeers(t *testing.T) {
	r := newRig(t)
	r.sbctl("chassis-add hv1 geneve 127.0.0.1")
	router := r.sbctl("create Datapath_Binding tunnel_key=9 external_ids:name=r external_ids:logical-router=" + rowID(9))
	a, b := r.insertSwitch("a", uuidA, 1), r.insertSwitch("b", uuidB, 2)
	r.sbctl("create Port_Binding logical_port=vm-a tunnel_key=1 datapath=" + a + " -- lsp-bind vm-a hv1")
	port := func(name, datapath string, key int, peer string) {
		r.sbctl(fmt.Sprintf("create Port_Binding logical_port=%s tunnel_key=%d datapath=%s type=patch options:peer=%s", name, key, datapath, peer))
	}
	port("a-r", a, 2, "r-a")
	port("b-r", b, 2, "r-b")
	port("b-gone", b, 3, "gone")
	port("r-b", router, 2, "b-r")
	var sources []*Source
	for _, monitor := range []Monitor{All, Local} {
		c := r.config(true, false)
		c.Monitor = monitor
		s := r.acquire(c)
		t.Cleanup(s.Request(Requests{Routers: true}))
		s.nameChassis("hv1")
		sources = append(sources, s)
	}
	are := func(want string) {
		t.Helper()
		for _, s := range sources {
			eventually(t, s, func(s *ovn.Snapshot) string {
				if got := joined(s, "a"); got != want {
					return fmt.Sprintf("got %q, want %q", got, want)
				}
				return ""
			})
		}
	}
	are("a")
	port("r-a", router, 1, "other")
	are("a")
	r.sbctl("set Port_Binding r-a options:peer=a-r")
	are("a b")
	r.sbctl("set Port_Binding a-r options:peer=r-b")
	are("a")
	r.sbctl("set Port_Binding a-r options:peer=r-a")
	are("a b")
	r.sbctl("set Port_Binding r-a type=chassisredirect")
	are("a")
	r.sbctl("set Port_Binding r-a type=l3gateway -- set Port_Binding a-r type=l3gateway")
	are("a b")
	// The row of a switch is replaced, and for a moment there are two.
	second := r.insertSwitch("a", uuidA, 3)
	r.sbctl("create Port_Binding logical_port=vm-a2 tunnel_key=1 datapath=" + second + " -- lsp-bind vm-a2 hv1")
	r.sbctl("set Port_Binding a-r datapath=" + second)
	are("a b")
	r.sbctl("set Port_Binding vm-a datapath=" + second + " tunnel_key=4 -- destroy Datapath_Binding " + a)
	are("a b")
}
