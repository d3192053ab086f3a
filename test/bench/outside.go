// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	_ "embed"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

//go:embed blocking.py
var blocking string

//go:embed neutronforwarder.py
var neutronForwarder string

// puntFlow is a module of both, puntflow.
//
//go:embed puntflow.py
var puntFlow string

//go:embed resolved.sh
var resolvedScript string

// resolvedPath is the program of systemd-resolved(8), and stub where it answers in a guest.
const (
	resolvedPath = "/usr/lib/systemd/systemd-resolved"
	stub         = "127.0.0.53"
)

// uncached are those who ask the upstream for each name.
func (o *outside) uncached() []peer {
	peers := []peer{o.puntdns("", o.upstream.Addr), o.ceiling()}
	if !o.elsewhere {
		peers = append(peers, o.blocking())
	}
	peers = append(peers, o.neutron(o.upstream.Addr)...)
	peers = append(peers, o.dnsmasq("cache-size=0\ndns-forward-max=10000\n", o.inner.Addr)...)
	peers = append(peers, o.resolved("Cache=no\n", o.inner.Addr)...)
	if !o.elsewhere {
		peers = append(peers, o.relay())
	}
	return append(peers, peer{name: pUpstream, asker: o.Node.Host, server: o.upstream.Addr})
}

// cached are those who have the names in a cache.
func (o *outside) cached() []peer {
	peers := []peer{o.puntdns("cache 3600", o.upstream.Addr)}
	if !o.elsewhere {
		peers = append(peers, o.stock())
	}
	peers = append(peers, o.dnsmasq("", o.inner.Addr)...)
	return append(peers, o.resolved("Cache=yes\n", o.inner.Addr)...)
}

// withDeadUpstream are those who know two upstreams, the first of which is silent.
func (o *outside) withDeadUpstream() []peer {
	peers := []peer{o.puntdns("", silent+" "+o.upstream.Addr+" {\n        policy sequential\n    }")}
	peers = append(peers, o.neutron(silent, o.upstream.Addr)...)
	peers = append(peers, o.dnsmasq("cache-size=0\n", silentInner, o.inner.Addr)...)
	return append(peers, o.resolved("Cache=no\n", silentInner, o.inner.Addr)...)
}

// puntdns has a chain of plugin, if that is not empty, and forward with these arguments.
func (o *outside) puntdns(plugin, forward string) peer {
	return o.puntdnsWith(pPuntdns, "", plugin, forward)
}

// puntdnsWith is puntdns under another name, with another property of ofpunt.
func (o *outside) puntdnsWith(name, property, plugin, forward string) peer {
	return peer{name: name, asker: o.vm.Host, server: resolver, start: func() *lab.Process {
		return o.serve(o.Node.Host, "flows are in place", o.bench.puntdns, "-conf", o.WriteFile("Corefile", fmt.Sprintf(`. {
    ofpunt br-int {
        openflow %s
        ovsdb %s
        placement table 0 102
        rate off
        %s
    }
    errors
    prometheus 127.0.0.1:9153
    %s
    forward . %s
}
`, o.Node.OpenFlow, o.Node.OVSDB, property, plugin, forward)))
	}}
}

// ceiling is what the switch and a socket leave of a forwarder.
func (o *outside) ceiling() peer {
	self, err := os.Executable()
	if err != nil {
		o.t.Fatalf("%v", err)
	}
	return peer{name: pCeiling, asker: o.vm.Host, server: resolver, start: func() *lab.Process {
		return o.serve(o.Node.Host, "flows are in place", self, "forwarding-ceiling",
			strings.TrimPrefix(o.Node.OpenFlow, "unix:"), strconv.Itoa(o.vm.OFPort), o.upstream.Addr)
	}}
}

// blocking is a forwarder in the manner of Neutron's.
func (o *outside) blocking() peer {
	host, port, err := net.SplitHostPort(o.upstream.Addr)
	if err != nil {
		o.t.Fatalf("%v", err)
	}
	return o.controller(pBlocking, blocking, "UPSTREAM_HOST="+host, "UPSTREAM_PORT="+port)
}

// neutron is Neutron's own, if this machine has it.
func (o *outside) neutron(upstreams ...string) []peer {
	if err := exec.Command("/usr/bin/python3", "-c", "import neutron.agent.l2.extensions.dns_forwarder").Run(); err != nil {
		return nil
	}
	return []peer{o.controller(pNeutron, neutronForwarder, "UPSTREAMS="+strings.Join(upstreams, ","))}
}

// controller is a program in Python that is a controller of the bridge.
func (o *outside) controller(name, text string, env ...string) peer {
	o.WriteFile("puntflow.py", puntFlow)
	script := o.WriteFile(strings.ReplaceAll(name, " ", "-")+".py", text)
	return peer{name: name, asker: o.vm.Host, server: resolver, start: func() *lab.Process {
		argv := append([]string{"env"}, env...)
		p := o.serve(o.Node.Host, "starting", append(argv, "/usr/bin/python3", script)...)
		// The first controller of a bridge has all flows flushed.
		o.Node.VSCTL("set-controller", lab.Bridge, "tcp:127.0.0.1:6653", "--", "set", "controller", lab.Bridge, "connection_mode=out-of-band")
		return o.started(p, "switch is connected")
	}, ready: func() { o.answers(o.vm, resolver+":53", o.list[0]) }, stopped: func() { o.Node.VSCTL("del-controller", lab.Bridge) }}
}

// relay is what the forward plugin allows, without the switch between.
func (o *outside) relay() peer {
	const addr = "127.0.0.1:5353"
	return peer{name: pRelay, asker: o.Node.Host, server: addr, start: func() *lab.Process {
		return o.serve(o.Node.Host, "CoreDNS-", o.coredns, "-conf", o.WriteFile("Corefile.relay", fmt.Sprintf(
			".:5353 {\n    bind 127.0.0.1\n    errors\n    prometheus 127.0.0.1:9153\n    forward . %s\n}\n", o.upstream.Addr)))
	}}
}

// stock is a stock CoreDNS with a cache in a guest.
func (o *outside) stock() peer {
	return peer{name: pStock, asker: o.vm.Host, server: serverAddr, start: func() *lab.Process {
		return o.launch(o.server.Host, "CoreDNS-", o.coredns, "-conf", o.WriteFile("Corefile.stock", fmt.Sprintf(
			". {\n    bind %s\n    errors\n    prometheus 127.0.0.1:9153\n    cache 3600\n    forward . %s\n}\n", serverAddr, o.inner.Addr)))
	}}
}

// dnsmasq is one in a guest, with more lines of configuration, if this machine has it.
func (o *outside) dnsmasq(config string, upstreams ...string) []peer {
	if _, err := exec.LookPath("dnsmasq"); err != nil {
		return nil
	}
	config += "no-resolv\nno-hosts\nuser=root\nlisten-address=" + serverAddr + "\nbind-interfaces\n"
	for _, u := range upstreams {
		config += "server=" + strings.Replace(u, ":", "#", 1) + "\n"
	}
	return []peer{{name: pDnsmasq, asker: o.vm.Host, server: serverAddr, start: func() *lab.Process {
		return o.launch(o.server.Host, "started, version", "dnsmasq", "--keep-in-foreground", "--log-facility=-", "--pid-file=",
			"--conf-file="+o.WriteFile("dnsmasq.conf", config))
	}}}
}

// resolved is systemd-resolved in the guest that asks, by its own stub, if this machine has it.
func (o *outside) resolved(config string, upstreams ...string) []peer {
	if _, err := os.Stat(resolvedPath); err != nil {
		return nil
	}
	config = "[Resolve]\nDNS=" + strings.Join(upstreams, " ") + "\nDomains=~.\nDNSSEC=no\nLLMNR=no\nMulticastDNS=no\n" + config
	return []peer{{name: pResolved, asker: o.vm.Host, server: stub, start: func() *lab.Process {
		p := o.launch(o.vm.Host, "starting", "unshare", "--mount", "--propagation", "private",
			"sh", "-ec", resolvedScript, resolvedPath, o.WriteFile("resolved.conf", config))
		o.answers(o.vm, stub+":53", "localhost") // which it knows by itself
		return p
	}}}
}

// answers waits until a server answers a guest within a second.
func (o *outside) answers(g *lab.Guest, server, name string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		one, end := context.WithTimeout(ctx, time.Second)
		_, _, err := g.Exchange(one, new(dns.Msg).SetQuestion(dns.Fqdn(name), dns.TypeA), server)
		end()
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			o.t.Fatalf("%s: %v", server, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
