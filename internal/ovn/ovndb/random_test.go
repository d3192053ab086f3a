// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/topology"
	"github.com/puntdns/puntdns/internal/testkit"
)

var randomSeed = flag.Uint64("seed", 0, "of TestRandom; 0 takes one at random")

// TestRandom: after random changes, each way of reading has the picture that a
// new reader gets, and readers in the meantime find no snapshot that contradicts
// itself.
func TestRandom(t *testing.T) {
	t.Parallel()
	seed := *randomSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-seed %d", seed)
	r := newRig(t)
	w := &chaos{r: r, rand: rand.New(rand.NewPCG(seed, 0))}
	w.begin()

	type reading struct {
		config Config
		joined bool
		// asks is set if DNS servers, gateways and forwards are asked for in the end, and asked if
		// they are at the beginning. release undoes the request.
		asks, asked bool
		release     func()
		source      *Source
		// releaseLabels ends the requests for labels, nil for none.
		releaseLabels func()
	}
	var readings []*reading
	for _, monitor := range []Monitor{All, Local} {
		for _, c := range []Config{r.config(true, false), r.config(true, true), r.config(false, true)} {
			c.Monitor = monitor
			sb, nb, err := c.parse()
			if err != nil {
				t.Fatal(err)
			}
			for _, joined := range []bool{false, true} {
				source := start(c, sb, nb, nil)
				t.Cleanup(source.stop)
				readings = append(readings, &reading{
					config: c, joined: joined, source: source, asks: joined || w.rand.IntN(2) == 0, asked: w.rand.IntN(2) == 0,
				})
			}
		}
	}
	here := []string{"p1", "p5", "p9"}
	aim := func(s *Source, joined bool) {
		if joined {
			s.Request(Requests{Routers: true})
		}
		s.nameChassis("hv1")
		s.as("br").setPorts(here, 0)
	}

	done := make(chan struct{})
	var readers sync.WaitGroup
	everything := Requests{DNSServers: true, Gateways: true, Forwards: true}
	for _, reading := range readings {
		aim(reading.source, reading.joined)
		if reading.asked {
			reading.release = reading.source.Request(everything)
		}
		readers.Go(func() {
			last, lastPicture := new(ovn.Snapshot), ""
			for {
				select {
				case <-done:
					return
				case <-reading.source.Changed():
				}
				s := reading.source.Snapshot()
				picture := portsPicture(s)
				if s.PortsVersion == last.PortsVersion && picture != lastPicture {
					t.Errorf("version %d of the ports is\n%s\nand\n%s", s.PortsVersion, lastPicture, picture)
				}
				last, lastPicture = s, picture
				for p := range s.Guests() {
					n := s.Network(p.Network)
					if n == nil || s.PortByName(p.Name) != p || p.Key != 0 && s.Guest(p.DatapathKey, p.Key) != p {
						t.Errorf("guest %+v is not to be found", p)
					}
					if _, ok := n.Lookup(p.Hostname, ""); !ok && p.Hostname != "" && len(p.Addresses) > 0 && reading.config.Northbound == nil {
						t.Errorf("guest %+v has no name", p)
					}
					if reading.joined && s.RouterScope(p.Network).Own != n {
						t.Errorf("guest %+v has no scope", p)
					}
				}
			}
		})
	}
	for i := range 400 {
		w.step()
		if w.rand.IntN(3) == 0 { // somebody asks for labels, or no longer does
			reading := readings[w.rand.IntN(len(readings))]
			if reading.releaseLabels != nil {
				reading.releaseLabels()
				reading.releaseLabels = nil
			} else {
				reading.releaseLabels = reading.source.Request(Requests{RouterNames: w.rand.IntN(2) == 0, GroupNames: w.rand.IntN(2) == 0, Egress: w.rand.IntN(2) == 0, ExternalIDs: []string{w.pick("a", "b", "c")}})
			}
		}
		for _, reading := range readings {
			switch {
			case i != 200 || reading.asks == reading.asked:
			case reading.asks:
				reading.source.Request(everything)
			default:
				reading.release()
			}
		}
	}
	close(done)
	for _, reading := range readings {
		reading.source.Request(Requests{Network: ovn.SwitchRef{Name: "s0"}}) // so that there is something in any case
		reading.source.Request(Requests{RouterNames: true, GroupNames: true, Egress: true, ExternalIDs: []string{"a", "b"}})
	}
	readers.Wait()
	for _, reading := range readings {
		name := fmt.Sprintf("southbound %v, northbound %v, monitor %d, joined %v, asks %v", reading.config.Southbound != nil, reading.config.Northbound != nil, reading.config.Monitor, reading.joined, reading.asks)
		sb, nb, err := reading.config.parse()
		if err != nil {
			t.Fatal(err)
		}
		fresh := start(reading.config, sb, nb, nil)
		aim(fresh, reading.joined)
		if reading.asks {
			fresh.Request(everything)
		}
		fresh.Request(Requests{Network: ovn.SwitchRef{Name: "s0"}})
		fresh.Request(Requests{RouterNames: true, GroupNames: true, Egress: true, ExternalIDs: []string{"a", "b"}})
		// The one may have more to ask for when the other has it all, and both have nothing at first.
		var diff string
		for deadline := time.Now().Add(patience); ; {
			want, got := fresh.Changed(), reading.source.Changed()
			diff = cmp.Diff(strings.Split(ovn.Dump(fresh.Snapshot()), "\n"), strings.Split(ovn.Dump(reading.source.Snapshot()), "\n"))
			if diff == "" && networks(fresh.Snapshot()) != "" || time.Now().After(deadline) {
				break
			}
			select {
			case <-want:
			case <-got:
			case <-time.After(time.Until(deadline)):
			}
		}
		if diff != "" {
			t.Errorf("%s: -from scratch +in the end:\n%s", name, diff)
		}
		// With Local more may be read still than is wanted, see conditionSet.suffices.
		if reading.config.Monitor == All {
			testkit.Eventually(r.t, name+": the same values that can't be used", func() bool { return badTexts(fresh) == badTexts(reading.source) })
		}
		if networks(fresh.Snapshot()) == "" {
			t.Errorf("%s: there is nothing to compare", name)
		}
		fresh.stop()
	}
}

// portOfText matches the name of a port's row in a text. The type of the port decides which database the text names,
// and the text stays when the type changes.
var portOfText = regexp.MustCompile(`^OVN_(Southbound: Port_Binding|Northbound: Logical_Switch_Port) \S+:`)

// badTexts are the texts about the values that can't be used at present.
func badTexts(s *Source) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.bad.Texts()
	for i, text := range all {
		all[i] = portOfText.ReplaceAllString(text, "port:")
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), "\n")
}

// chaos changes both databases, each without regard to the other.
type chaos struct {
	r    *rig
	rand *rand.Rand
	// ports and switches that are there, in each database.
	sbPorts, nbPorts, datapaths, dns, nbDNS, lrps []string
}

const (
	switchCount = 5
	routerCount = 2
	portCount   = 25
	groupCount  = 3
)

func switchID(i int) string { return fmt.Sprintf("11111111-1111-4111-8111-%012d", i) }
func rowID(i int) string    { return fmt.Sprintf("22222222-2222-4222-8222-%012d", i) }

func (w *chaos) begin() {
	for i := range switchCount {
		w.nb(`{"op":"insert","table":"Logical_Switch","uuid":%q,"row":{"name":%q}}`, switchID(i), fmt.Sprintf("s%d", i))
		w.sb(`{"op":"insert","table":"Datapath_Binding","uuid":%q,"row":%s}`, rowID(i), w.datapath(i))
		w.datapaths = append(w.datapaths, rowID(i))
	}
	for i := range routerCount {
		w.sb(`{"op":"insert","table":"Datapath_Binding","uuid":%q,"row":%s}`, rowID(switchCount+i), w.datapath(switchCount+i))
		w.datapaths = append(w.datapaths, rowID(switchCount+i))
		w.nb(`{"op":"insert","table":"Logical_Router","uuid":%q,"row":{"name":"r%d"}}`, switchID(switchCount+i), i)
	}
	for i, cidr := range []string{"10.0.0.0/8", "fd00::/64"} {
		w.nb(`{"op":"insert","table":"DHCP_Options","uuid":%q,"row":{"cidr":%q}}`, rowID(i), cidr)
	}
	w.sb(`{"op":"insert","table":"Encap","uuid-name":"e","row":{"type":"geneve","ip":"127.0.0.1","chassis_name":"hv1"}},`+
		`{"op":"insert","table":"Chassis","uuid":%q,"row":{"name":"hv1","encaps":["named-uuid","e"]}}`, rowID(0))
}

func (w *chaos) nb(format string, args ...any) { w.transact(topology.NorthboundName, format, args) }
func (w *chaos) sb(format string, args ...any) { w.transact(topology.SouthboundName, format, args) }

func (w *chaos) transact(db, format string, args []any) {
	var ops []any
	var raw []json.RawMessage
	if err := json.Unmarshal([]byte("["+fmt.Sprintf(format, args...)+"]"), &raw); err != nil {
		w.r.t.Fatalf("%v: "+format, append([]any{err}, args...)...)
	}
	for _, op := range raw {
		ops = append(ops, op)
	}
	w.r.server.Transact(w.r.t, db, ops...)
}

func (w *chaos) pick(list ...string) string { return list[w.rand.IntN(len(list))] }

func (w *chaos) host() string { return fmt.Sprintf("%s%d", w.pick("vm", "VM"), w.rand.IntN(6)) }

func (w *chaos) address() string {
	return w.pick(fmt.Sprintf("10.0.0.%d", w.rand.IntN(12)), fmt.Sprintf("fd00::%d", w.rand.IntN(12)), "10.0.0", "10.0.0.1 fd00::1")
}

func (w *chaos) datapath(i int) string {
	if i >= switchCount {
		return fmt.Sprintf(`{"tunnel_key":%d,"external_ids":["map",[["name","r%d"],["logical-router",%q]]]}`, i+1, i, switchID(i))
	}
	return fmt.Sprintf(`{"tunnel_key":%d,"external_ids":["map",[["name","s%d"],["logical-switch",%q]]]}`, i+1, w.rand.IntN(2)*i, switchID(i))
}

// portRow is for the port of that number, whose peer, if it has one, is the next
// to it.
func (w *chaos) portRow(name string) string {
	i, err := strconv.Atoi(name[1:])
	if err != nil {
		w.r.t.Fatal(err)
	}
	datapath := w.pick(w.datapaths[:switchCount]...)
	kind := w.pick("", "", "", "virtual", "localport")
	if i > 10 {
		kind = w.pick("", "patch", "patch", "patch", "patch", "patch", "patch", "l3gateway", "l3gateway", "localnet")
		if i%2 == 1 && kind != "" {
			datapath = w.pick(w.datapaths[switchCount:]...)
		}
	}
	chassis := w.pick(`["set",[]]`, fmt.Sprintf(`["uuid",%q]`, rowID(0)))
	return fmt.Sprintf(`{"datapath":["uuid",%q],"type":%q,"mac":["set",["02:00:00:00:00:01 %s",%q]],"options":["map",[["hostname",%q],["peer","p%d"],["other","x"]]],"chassis":%s,"external_ids":["map",%s]}`,
		datapath, kind, w.address(), w.pick("unknown", "dynamic", "02:00:00:00:00:02 10.0.0.77", fmt.Sprintf("02:00:00:00:00:04 10.0.0.%d/24 fd00::%d/64", w.rand.IntN(12), w.rand.IntN(12))),
		w.host(), i^1, chassis, w.ids())
}

// ids are external_ids of a port.
func (w *chaos) ids() string {
	return w.pick("[]", `[["a","1"]]`, `[["a","2"],["b","3"],["c","4"]]`, `[["b",""],["c","5"]]`, `[["neutron:device_owner","network:dhcp"],["a","1"]]`, `[["dns-egress","a.test"]]`, `[["dns-egress","b.test a..b"],["a","1"]]`, fmt.Sprintf(`[[%q,%q]]`, ovn.OwnerKey, "network:router_gateway"))
}

func (w *chaos) key() string {
	return w.pick(w.host(), w.host()+".x", fmt.Sprintf("%d.0.0.10.in-addr.arpa", w.rand.IntN(12)), "a..b")
}

// rrKey and rrValue are of external_ids of a DNS row.
func (w *chaos) rrKey() string {
	return w.pick("dns-cname", "dns-mx", "dns-txt", "dns-a") + "/" + w.pick("*.", "") + w.key()
}

func (w *chaos) rrValue() string { return w.pick("vm1.x", "1 vm2", "a..b", "2 vm1\n3 vm2") }

func (w *chaos) records() string {
	m := map[string]string{}
	for range 1 + w.rand.IntN(3) {
		m[w.key()] = w.address()
	}
	var pairs [][2]string
	for k, v := range m {
		pairs = append(pairs, [2]string{k, v})
	}
	text, err := json.Marshal(pairs)
	if err != nil {
		w.r.t.Fatal(err)
	}
	return string(text)
}

func (w *chaos) step() {
	switch n := w.rand.IntN(24); n {
	case 22: // a port joins a group or leaves it
		port, change := fmt.Sprintf("p%d", w.rand.IntN(portCount)), w.pick("insert", "insert", "delete")
		group := w.rand.IntN(groupCount)
		w.sb(`{"op":"mutate","table":"Port_Group","where":[["name","==","5_g%d"]],"mutations":[["ports",%q,%q]]}`, group, change, port)
		if slices.Contains(w.nbPorts, port) {
			id := w.r.nbctl("get Logical_Switch_Port " + port + " _uuid")
			w.nb(`{"op":"mutate","table":"Port_Group","where":[["name","==","g%d"]],"mutations":[["ports",%q,["uuid",%q]]]}`, group, change, id)
		}
	case 23: // a group comes or goes
		group := w.rand.IntN(groupCount)
		if w.rand.IntN(2) == 0 {
			w.sb(`{"op":"delete","table":"Port_Group","where":[["name","==","5_g%d"]]}`, group)
			w.nb(`{"op":"delete","table":"Port_Group","where":[["name","==","g%d"]]}`, group)
		} else {
			w.sb(`{"op":"delete","table":"Port_Group","where":[["name","==","5_g%d"]]},{"op":"insert","table":"Port_Group","row":{"name":"5_g%d","ports":["set",["p1","p5"]]}}`, group, group)
			w.nb(`{"op":"delete","table":"Port_Group","where":[["name","==","g%d"]]},{"op":"insert","table":"Port_Group","row":{"name":"g%d","external_ids":["map",[["dns-egress",%q]]]}}`, group, group, w.pick("", "g.test", "h.test,10.0.0.1/8"))
		}
	case 18, 19: // a DNS row of Northbound has other records that are not addresses
		if len(w.nbDNS) > 0 {
			id := w.pick(w.nbDNS...)
			key := w.rrKey()
			w.nb(`{"op":"mutate","table":"DNS","where":[["_uuid","==",["uuid",%q]]],"mutations":[["external_ids","delete",["set",[%q]]],["external_ids","delete",["set",[%q]]],["external_ids","insert",["map",[[%q,%q]]]]]}`,
				id, w.rrKey(), key, key, w.rrValue())
		}
	case 20: // it has all of them anew, is for a switch or not, or somebody owns it
		if len(w.nbDNS) > 0 {
			id := w.pick(w.nbDNS...)
			where := fmt.Sprintf(`"table":"DNS","where":[["_uuid","==",["uuid",%q]]]`, id)
			w.nb("%s", w.pick(
				fmt.Sprintf(`{"op":"update",%s,"row":{"external_ids":["map",[[%q,%q],["other","x"]]]}}`, where, w.rrKey(), w.rrValue()),
				fmt.Sprintf(`{"op":"update",%s,"row":{"external_ids":["map",[]]}}`, where),
				fmt.Sprintf(`{"op":"mutate","table":"Logical_Switch","where":[["_uuid","==",["uuid",%q]]],"mutations":[["dns_records","insert",["uuid",%q]]]}`, switchID(w.rand.IntN(switchCount)), id),
				fmt.Sprintf(`{"op":"mutate","table":"Logical_Switch","where":[["_uuid","==",["uuid",%q]]],"mutations":[["dns_records","delete",["uuid",%q]]]}`, switchID(w.rand.IntN(switchCount)), id)))
		}
	case 21: // a switch or a router forwards other zones
		i := w.rand.IntN(switchCount + routerCount)
		table := "Logical_Switch"
		if i >= switchCount {
			table = "Logical_Router"
		}
		w.nb(`{"op":"update","table":%q,"where":[["_uuid","==",["uuid",%q]]],"row":{"external_ids":["map",[["other","x"],["dns-forward",%q],["dns-egress",%q]]]}}`, table, switchID(i),
			w.pick("", "a.test=192.0.2.1", "a.test=192.0.2.1,192.0.2.2;b.test=192.0.2.3", "b.test=192.0.2.4;wrong"), w.pick("", "s.test", "10.0.0.0/8"))
	case 16: // a router has another name
		i := switchCount + w.rand.IntN(routerCount)
		name := fmt.Sprintf("r%d", w.rand.IntN(4))
		w.nb(`{"op":"update","table":"Logical_Router","where":[["_uuid","==",["uuid",%q]]],"row":{"name":%q}}`, switchID(i), name)
		w.sb(`{"op":"update","table":"Datapath_Binding","where":[["_uuid","==",["uuid",%q]]],"row":{"external_ids":["map",[["name",%q],["logical-router",%q]]]}}`, w.datapaths[i], name, switchID(i))
	case 17: // a port has other external_ids
		name := fmt.Sprintf("p%d", w.rand.IntN(portCount))
		w.nb(`{"op":"update","table":"Logical_Switch_Port","where":[["name","==",%q]],"row":{"external_ids":["map",%s]}}`, name, w.ids())
		w.sb(`{"op":"update","table":"Port_Binding","where":[["logical_port","==",%q]],"row":{"external_ids":["map",%s]}}`, name, w.ids())
	case 0, 1: // a port comes or goes
		i := w.rand.IntN(portCount)
		name := fmt.Sprintf("p%d", i)
		if at := slices.Index(w.sbPorts, name); at >= 0 {
			w.sbPorts = slices.Delete(w.sbPorts, at, at+1)
			w.sb(`{"op":"delete","table":"Port_Binding","where":[["logical_port","==",%q]]}`, name)
			return
		}
		w.sbPorts = append(w.sbPorts, name)
		w.sb(`{"op":"insert","table":"Port_Binding","row":{"logical_port":%q,"tunnel_key":%d,"datapath":["uuid",%q]}},`+
			`{"op":"update","table":"Port_Binding","where":[["logical_port","==",%q]],"row":%s}`,
			name, i+1, w.pick(w.datapaths[:switchCount]...), name, w.portRow(name))
	case 2, 3: // a port changes
		if len(w.sbPorts) > 0 {
			name := w.pick(w.sbPorts...)
			w.sb(`{"op":"update","table":"Port_Binding","where":[["logical_port","==",%q]],"row":%s}`, name, w.portRow(name))
		}
	case 4: // a switch gets another row, without what refers to the old
		i := w.rand.IntN(switchCount)
		old := w.datapaths[i]
		w.datapaths[i] = rowID(100 + w.rand.IntN(1<<30))
		w.sb(`{"op":"update","table":"Port_Binding","where":[["datapath","==",["uuid",%q]]],"row":{"datapath":["uuid",%q]}},`+
			`{"op":"delete","table":"DNS","where":[["datapaths","includes",["uuid",%q]]]},`+
			`{"op":"delete","table":"Datapath_Binding","where":[["_uuid","==",["uuid",%q]]]},`+
			`{"op":"insert","table":"Datapath_Binding","uuid":%q,"row":%s}`, old, w.datapaths[i], old, old, w.datapaths[i], w.datapath(i))
	case 5, 6: // a DNS row comes
		w.dns = append(w.dns, fmt.Sprintf("33333333-3333-4333-8333-%012d", len(w.dns)))
		w.sb(`{"op":"insert","table":"DNS","uuid":%q,"row":{"datapaths":["set",[["uuid",%q]]],"records":["map",[["first","10.0.0.1"]]]}}`,
			w.dns[len(w.dns)-1], w.pick(w.datapaths[:switchCount]...))
	case 7, 8: // a DNS row's records change
		if len(w.dns) > 0 {
			id := w.pick(w.dns...)
			w.sb(`{"op":"mutate","table":"DNS","where":[["_uuid","==",["uuid",%q]]],"mutations":[["records","delete",["set",[%q]]]]},`+
				`{"op":"mutate","table":"DNS","where":[["_uuid","==",["uuid",%q]]],"mutations":[["records","insert",["map",[[%q,%q]]]]]}`,
				id, w.key(), id, w.key(), w.address())
		}
	case 9: // a DNS row is for another switch too, or has other records, or goes
		if len(w.dns) > 0 {
			id := w.pick(w.dns...)
			where := fmt.Sprintf(`"table":"DNS","where":[["_uuid","==",["uuid",%q]]]`, id)
			w.sb("%s", w.pick(
				fmt.Sprintf(`{"op":"mutate",%s,"mutations":[["datapaths","insert",["uuid",%q]]]}`, where, w.pick(w.datapaths[:switchCount]...)),
				fmt.Sprintf(`{"op":"update",%s,"row":{"datapaths":["uuid",%q],"records":["map",%s]}}`, where, w.pick(w.datapaths[:switchCount]...), w.records()),
				fmt.Sprintf(`{"op":"delete",%s}`, where)))
		}
	case 10: // a Northbound port comes or goes
		name := fmt.Sprintf("p%d", w.rand.IntN(portCount))
		if at := slices.Index(w.nbPorts, name); at >= 0 {
			w.nbPorts = slices.Delete(w.nbPorts, at, at+1)
			w.r.nbctl("--if-exists lsp-del " + name)
			return
		}
		w.nbPorts = append(w.nbPorts, name)
		w.nb(`{"op":"insert","table":"Logical_Switch_Port","uuid-name":"p","row":{"name":%q,"dhcpv4_options":%s,"dhcpv6_options":%s,"options":["map",[["hostname",%q]]]}},`+
			`{"op":"mutate","table":"Logical_Switch","where":[["_uuid","==",["uuid",%q]]],"mutations":[["ports","insert",["named-uuid","p"]]]}`,
			name, w.pick(`["set",[]]`, fmt.Sprintf(`["uuid",%q]`, rowID(0))), w.pick(`["set",[]]`, fmt.Sprintf(`["uuid",%q]`, rowID(1))), w.host(), switchID(w.rand.IntN(switchCount)))
	case 11: // a Northbound port changes
		w.nb(`{"op":"update","table":"Logical_Switch_Port","where":[["name","==",%q]],"row":{"addresses":["set",[%q,"02:00:00:00:00:01 %s"]],"dynamic_addresses":%q,"enabled":%s}}`,
			fmt.Sprintf("p%d", w.rand.IntN(portCount)), w.pick("dynamic", "unknown"), w.address(), "02:00:00:00:00:03 10.0.0.99", w.pick("true", "false", `["set",[]]`))
	case 12: // a switch has another domain, or DNS rows
		i := w.rand.IntN(switchCount)
		w.nb(`{"op":"update","table":"Logical_Switch","where":[["_uuid","==",["uuid",%q]]],"row":{"other_config":["map",[[%q,%q]]],"external_ids":["map",[["dns_domain","ids.test"]]]}}`,
			switchID(i), w.pick("dns_domain", "x"), w.pick("a.test", "B.test", ""))
		id := fmt.Sprintf("44444444-4444-4444-8444-%012d", len(w.nbDNS))
		w.nbDNS = append(w.nbDNS, id)
		w.nb(`{"op":"insert","table":"DNS","uuid":%q,"row":{"records":["map",[["%s","10.0.0.5"]]],"external_ids":["map",[[%q,%q]]]}},`+
			`{"op":"mutate","table":"Logical_Switch","where":[["_uuid","==",["uuid",%q]]],"mutations":[["dns_records","insert",["uuid",%q]]]}`,
			id, w.host(), w.rrKey(), w.rrValue(), switchID(w.rand.IntN(switchCount)), id)
	case 14: // a switch and a router are joined, or have something between them
		i := w.rand.IntN(100)
		w.nb(`{"op":"insert","table":"Logical_Router_Port","uuid-name":"p","row":{"name":"lrp%d","mac":"02:00:00:00:00:09","networks":["set",["10.9.0.%d/24","fd09::%d/64"]],"peer":"lrp%d"}},`+
			`{"op":"mutate","table":"Logical_Router","where":[["_uuid","==",["uuid",%q]]],"mutations":[["ports","insert",["named-uuid","p"]]]},`+
			`{"op":"insert","table":"Logical_Switch_Port","uuid-name":"q","row":{"name":"q%d","type":%q,"options":["map",[["router-port","lrp%d"]]]}},`+
			`{"op":"mutate","table":"Logical_Switch","where":[["_uuid","==",["uuid",%q]]],"mutations":[["ports","insert",["named-uuid","q"]]]}`,
			len(w.lrps), w.rand.IntN(250)+1, w.rand.IntN(250)+1, w.rand.IntN(len(w.lrps)+2), switchID(switchCount+w.rand.IntN(routerCount)), len(w.lrps), w.pick("router", "router", "router", "router", "localnet"), len(w.lrps)+i/90, switchID(w.rand.IntN(switchCount)))
		w.lrps = append(w.lrps, fmt.Sprintf("lrp%d", len(w.lrps)))
	case 15: // one of those goes
		if len(w.lrps) > 0 {
			w.r.nbctl(w.pick("--if-exists lrp-del lrp", "--if-exists lsp-del q") + fmt.Sprint(w.rand.IntN(len(w.lrps))))
		}
	case 13: // DHCP tells another domain or server, a router has another address, and the chassis comes and goes
		w.nb(`{"op":"update","table":"DHCP_Options","where":[["cidr","==",%q]],"row":{"options":["map",[["domain_name",%q],["dns_server",%q]]]}}`, w.pick("10.0.0.0/8", "fd00::/64"), w.pick(`"dhcp.test"`, `"other.test"`, ""),
			w.pick("", "9.9.9.9", fmt.Sprintf("{10.0.0.%d, 9.9.9.9, fd00::%d}", w.rand.IntN(12), w.rand.IntN(12)), "{fd00::9 9.9.9.10 x"))
		if len(w.lrps) > 0 {
			w.nb(`{"op":"update","table":"Logical_Router_Port","where":[["name","==",%q]],"row":{"networks":"10.9.1.%d/24"}}`, w.pick(w.lrps...), w.rand.IntN(250)+1)
		}
		w.sb(`{"op":"update","table":"Chassis","where":[],"row":{"name":%q}}`, w.pick("hv1", "hv1", "hv2"))
	}
}
