// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// Addresses of Services, as a pod of puntdns is told them.
const (
	clusterDNS  = "10.96.0.10"
	upstreamDNS = "10.96.77.1"
)

// apiName is a name that cluster DNS has.
const apiName = "kubernetes.default.svc.cluster.local"

// inPod starts puntdns in a namespace as its pod does: with the Corefile of an overlay in
// deploy/kubernetes, as its user without a capability, and with the folder of the sockets
// read-only.
func inPod(t *testing.T, l *lab.Lab, h *lab.Host, overlay, name string, user int, env ...string) *lab.Process {
	t.Helper()
	text, err := os.ReadFile("../deploy/kubernetes/overlays/" + overlay + "/Corefile")
	if err != nil {
		t.Fatal(err)
	}
	sockets := socketsOf(t, l, user)
	binary := filepath.Join(l.Dir, "puntdns")
	if _, err := os.Stat(binary); err != nil {
		program, err := os.ReadFile(puntdns)
		if err != nil {
			t.Fatal(err)
		}
		if err := lab.WriteProgram(binary, string(program)); err != nil {
			t.Fatal(err)
		}
	}
	const readOnly = `mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && shift && exec "$@"`
	id := strconv.Itoa(user)
	env = append(env, "GORACE=halt_on_error=1 exitcode=66 atexit_sleep_ms=100", "OVS_RUNDIR="+sockets, "OVN_RUNDIR="+sockets,
		"KUBE_DNS_SERVICE_HOST="+clusterDNS)
	p := h.Start(name, env, "unshare", "--mount", "sh", "-c", readOnly, "sh", sockets,
		"setpriv", "--reuid", id, "--regid", id, "--clear-groups", "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs",
		binary, "-conf", l.WriteFile("Corefile."+overlay, string(text)))
	waitServing(t, l, h, p, "127.0.0.1:9153")
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Pid))
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`(?m)^Uid:\t`+id+`\t`).Match(status) || !regexp.MustCompile(`(?m)^CapEff:\t0+$`).Match(status) {
		t.Errorf("puntdns is not user %d without capabilities:\n%s", user, status)
	}
	return p
}

// socketsOf makes a folder with the sockets of the daemons, under the names that these have by
// default, which belong to the user.
func socketsOf(t *testing.T, l *lab.Lab, user int) (dir string) {
	t.Helper()
	dir = filepath.Join(l.Dir, "run")
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(l.Dir, 0o711); err != nil {
		t.Fatal(err)
	}
	for endpoint, name := range map[string]string{l.SB: "ovnsb_db.sock", l.Node.OVSDB: "db.sock", l.Node.OpenFlow: lab.Bridge + ".mgmt"} {
		path := strings.TrimPrefix(endpoint, "unix:")
		if err := os.Chown(path, user, user); err != nil {
			t.Fatal(err)
		}
		if err := os.Link(path, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// service adds the load balancers of a Service, UDP and TCP, and returns their UUIDs.
func service(l *lab.Lab, name, vip, backend string, options ...string) (uuids []string) {
	for _, protocol := range []string{"udp", "tcp"} {
		args := []string{"create", "Load_Balancer", "name=" + strings.ReplaceAll(name, "PROTOCOL", protocol), "protocol=" + protocol,
			fmt.Sprintf(`vips={"%s:53"="%s:53"}`, vip, backend)}
		uuids = append(uuids, l.NBCTL(append(args, options...)...))
	}
	return uuids
}

// The databases of a node are as ovn-kubernetes writes them, and puntdns is a pod on the node's
// switch itself. Pods ask cluster DNS; what its load balancer makes of the destination does not
// matter, and network policies decide before puntdns.
func TestOVNKubernetes(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Options{})
	l.AddSwitch("node1", "other_config:subnet=10.244.0.0/24")
	l.AddRouter("ovn_cluster_router", lab.RouterPort{Switch: "node1", MAC: "0a:58:0a:f4:00:01", Networks: []string{"10.244.0.1/24"}})
	group := l.NBCTL("create", "Load_Balancer_Group", "name=clusterSwitchLBGroup")
	for _, s := range []struct{ name, vip string }{{"kube-dns", clusterDNS}, {"puntdns-upstream", upstreamDNS}} {
		for _, uuid := range service(l, "Service_kube-system/"+s.name+"_PROTOCOL_cluster", s.vip, "10.244.0.53",
			"options:event=false", "options:reject=true", "options:skip_snat=false", "options:neighbor_responder=none",
			"options:hairpin_snat_ip=169.254.0.5", `external_ids:"k8s.ovn.org/kind"=Service`, `external_ids:"k8s.ovn.org/owner"="kube-system/`+s.name+`"`) {
			l.NBCTL("add", "Load_Balancer_Group", group, "load_balancer", uuid)
		}
	}
	l.NBCTL("add", "Logical_Switch", "node1", "load_balancer_group", group)
	l.AddDNS(map[string]string{"db.shop.internal": "10.244.0.77"}, "node1")
	pod := func(namespace, name string, number int) *lab.Guest {
		return l.Node.AddGuest(lab.Guest{
			Name: namespace + "_" + name, Switch: "node1", MAC: fmt.Sprintf("0a:58:0a:f4:00:%02x", number),
			Addrs: lab.Prefixes(fmt.Sprintf("10.244.0.%d/24", number)), Gateway4: lab.Addr("10.244.0.1"), PortSecurity: true,
			Settings: []string{"external_ids:namespace=" + namespace, `external_ids:pod="true"`, "options:requested-chassis=node1"},
		})
	}
	coredns, own, next := pod("kube-system", "coredns-0", 53), pod("kube-system", "puntdns-0", 9), pod("kube-system", "puntdns-1", 10)
	web, allowed, locked := pod("shop", "web-0", 11), pod("shop", "job-0", 12), pod("vault", "job-0", 13)
	// Of namespaces with network policies of egress: to cluster DNS, and to nobody.
	for _, policy := range []struct{ name, port string }{{"a100", allowed.Port}, {"a200", locked.Port}} {
		l.NBCTL("pg-add", policy.name, policy.port, "--", "--apply-after-lb", "acl-add", policy.name, "from-lport", "1000", "inport == @"+policy.name+" && ip", "drop")
	}
	l.NBCTL("--apply-after-lb", "acl-add", "a100", "from-lport", "1001", "inport == @a100 && ip4.dst == 10.244.0.53 && (udp.dst == 53 || tcp.dst == 53)", "allow-related")
	l.Sync()
	server := coredns.ServeDNS("10.244.0.53:53", apiName+". 5 A 10.96.0.1")

	upstream := "PUNTDNS_UPSTREAM_SERVICE_HOST=" + upstreamDNS
	first := inPod(t, l, own.Host, "ovn-kubernetes", "first", 0, upstream)
	l.Node.Revalidate()
	for _, g := range []*lab.Guest{web, allowed} {
		for _, how := range []string{"+notcp", "+tcp"} {
			expect(t, g, "NOERROR 30 10.244.0.77", "@"+clusterDNS, "db.shop.internal", how)
			expect(t, g, "NOERROR 10.96.0.1", "@"+clusterDNS, apiName, how)
		}
	}
	if got := server.Count("db.shop.internal"); got != 0 {
		t.Errorf("cluster DNS was asked %d times for a name of the network", got)
	}
	if got := server.Count(apiName); got != 1 {
		t.Errorf("cluster DNS was asked %d times for %s, want once, for the cache", got, apiName)
	}
	expect(t, locked, "no reply", "@"+clusterDNS, "db.shop.internal", "+time=1", "+tries=1")

	// The rolling update: a second pod beside the first, with the same ports.
	stop := keepAsking(t, wait, standing{web, clusterDNS, "db.shop.internal.", dns.TypeA, "NOERROR 10.244.0.77"})
	second := inPod(t, l, next.Host, "ovn-kubernetes", "second", 0, upstream)
	is := func(g *lab.Guest, status int) {
		t.Helper()
		if err := g.WaitHTTP(within(t, wait), "http://"+g.Addrs[0].Addr().String()+":8181/ready", status); err != nil {
			t.Error(err)
		}
	}
	is(next, 200)
	is(own, 503)
	if err := first.Stop(); err != nil {
		t.Error(err)
	}
	is(next, 200)
	if asked, other := stop(); len(other) > 0 {
		t.Errorf("of %d queries: %v", asked, other)
	}

	// Without puntdns the pods have cluster DNS.
	if err := second.Stop(); err != nil {
		t.Error(err)
	}
	l.Node.Revalidate()
	before := server.Count(apiName)
	if got := web.Dig("@"+clusterDNS, apiName).String(); got != "NOERROR 10.96.0.1" || server.Count(apiName) == before {
		t.Errorf("without puntdns: %s, cluster DNS was asked %d times", got, server.Count(apiName)-before)
	}
}

// The databases are as Kube-OVN writes them: a switch for each subnet, a router for each VPC.
// Subnets of two VPCs have the same addresses, and one VPC has no way to cluster DNS.
func TestKubeOVN(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Options{TCP: true})
	type vpc struct{ router, subnet, namespace, mac, db string }
	vpcs := []vpc{
		{"ovn-cluster", "ovn-default", "shop", "00:00:00:2e:2f:b8", "10.16.0.77"},
		{"tenant-a", "tenant-a-net", "tenant-a", "00:00:00:2e:2f:b9", "10.16.0.88"},
	}
	var pods []*lab.Guest
	for i, v := range vpcs {
		l.AddSwitch(v.subnet, "other_config:exclude_ips=10.16.0.1", "external_ids:vendor=kube-ovn")
		l.AddRouter(v.router, lab.RouterPort{Switch: v.subnet, MAC: v.mac, Networks: []string{"10.16.0.1/16"}})
		l.AddDNS(map[string]string{"db.internal": v.db}, v.subnet)
		pods = append(pods, l.Node.AddGuest(lab.Guest{
			Name: "web-0." + v.namespace, Switch: v.subnet, MAC: fmt.Sprintf("00:00:00:53:6b:%02x", i),
			Addrs: []netip.Prefix{netip.MustParsePrefix("10.16.0.5/16")}, Gateway4: lab.Addr("10.16.0.1"), PortSecurity: true,
			Settings: []string{"external_ids:pod=" + v.namespace + "/web-0", "external_ids:ls=" + v.subnet, "external_ids:vendor=kube-ovn"},
		}))
	}
	for _, uuid := range service(l, "cluster-PROTOCOL-loadbalancer", clusterDNS, "10.16.0.53") {
		l.NBCTL("add", "Logical_Switch", "ovn-default", "load_balancer", uuid)
	}
	l.Sync()
	server := l.Node.ServeDNS("127.0.0.53:53", apiName+". 5 A 10.96.0.1")

	host, port, _ := strings.Cut(strings.TrimPrefix(l.SBTCP, "tcp:"), ":")
	inPod(t, l, l.Node.Host, "kube-ovn", "puntdns", 65534, "PUNTDNS_UPSTREAM_SERVICE_HOST=127.0.0.53", "OVN_SB_SERVICE_HOST="+host, "OVN_SB_SERVICE_PORT="+port)
	l.Node.Revalidate()
	for i, v := range vpcs {
		for _, how := range []string{"+notcp", "+tcp"} {
			expect(t, pods[i], "NOERROR 30 "+v.db, "@"+clusterDNS, "db.internal", how)
			expect(t, pods[i], "NOERROR 10.96.0.1", "@"+clusterDNS, apiName, how)
		}
	}
	if got := server.Count("db.internal"); got != 0 {
		t.Errorf("cluster DNS was asked %d times for a name of a network", got)
	}
}
