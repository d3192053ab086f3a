// SPDX-License-Identifier: Apache-2.0

package main

import "strings"

// ofBridge and ofNode stand for the labels that the reader has chosen, and ofServer for those of
// the metrics of CoreDNS by server.
var labels = strings.NewReplacer(
	"ofBridge", `instance=~"$instance", bridge=~"$bridge"`,
	"ofNode", `instance=~"$instance"`,
	"ofServer", `instance=~"$instance", server=~"ofpunt://.*"`,
	"perSecond", "[$__rate_interval]",
)

func q(expr, legend string) query { return query{labels.Replace(expr), legend} }

// quantiles are those of a histogram whose buckets have these labels, and those of by.
func quantiles(bucket, by string) (all []query) {
	le := "le"
	legend := ""
	if by != "" {
		le, legend = "le, "+by, " {{"+by+"}}"
	}
	for _, p := range []struct{ quantile, name string }{{"0.5", "half within"}, {"0.9", "90 % within"}, {"0.99", "99 % within"}} {
		all = append(all, q("histogram_quantile("+p.quantile+", sum by ("+le+") (rate("+bucket+"perSecond)))", p.name+legend))
	}
	return all
}

// node is the dashboard of one node.
var node = board{
	uid: "puntdns-node", title: "puntdns: one node", bridges: true,
	rows: []row{
		{"State", []panel{
			{title: "Ready", description: "1 while the guests of the bridge are served and the databases are in sync.", unit: "none", stat: true,
				queries: []query{q("coredns_ofpunt_ready{ofBridge}", "{{bridge}}")}},
			{title: "Connected to the switch", unit: "none", stat: true, queries: []query{q("coredns_ofpunt_connected{ofBridge}", "{{bridge}}")}},
			{title: "Guests served", unit: "none", stat: true, queries: []query{q("coredns_ofpunt_guests{ofBridge}", "{{bridge}}")}},
			{title: "Interfaces not served", description: "The log says of each why.", unit: "none", stat: true, queries: []query{q("coredns_ofpunt_interfaces_unserved{ofBridge}", "{{bridge}}")}},
			{title: "Guests without a resolver address", unit: "none", stat: true, queries: []query{q("coredns_ofpunt_guests_without_address{ofBridge}", "{{bridge}}")}},
			{title: "Guests served for the grace", description: "Their binding has vanished.", unit: "none", stat: true, queries: []query{q("coredns_ofpunt_guests_kept{ofBridge}", "{{bridge}}")}},
		}},
		{"Traffic", []panel{
			{title: "Queries over UDP by result", unit: "reqps", queries: []query{
				q(`sum by (result) (rate(coredns_ofpunt_packet_ins_total{ofBridge, result!="taken", reason!~"neighbor|no-connection|connections"}perSecond))`, "{{result}}")}},
			{title: "Queries over TCP by result", unit: "reqps", queries: []query{q("sum by (result) (rate(coredns_ofpunt_tcp_queries_total{ofBridge}perSecond))", "{{result}}")}},
			{title: "Answers by rcode", unit: "reqps", queries: []query{q("sum by (rcode) (rate(coredns_dns_responses_total{ofServer}perSecond))", "{{rcode}}")}},
			{title: "Names of the databases by what gave the answer", unit: "reqps", queries: []query{q("sum by (answer) (rate(coredns_ovnhosts_answers_total{ofServer}perSecond))", "{{answer}}")}},
			{title: "Queries in flight", description: "In the plugin chains; max_concurrent bounds them.", unit: "none", queries: []query{q("coredns_ofpunt_in_flight{ofBridge}", "{{bridge}}")}},
			{title: "Busiest networks", description: "With metrics network in the Corefile.", unit: "reqps", queries: []query{
				q("topk(10, sum by (switch, network) (rate(coredns_ofpunt_network_queries_total{ofBridge}perSecond)))", "{{switch}} {{network}}")}},
		}},
		{"Latency", []panel{
			{title: "Packet-in to answer", unit: "s", queries: quantiles("coredns_ofpunt_answer_duration_seconds_bucket{ofServer}", "")},
			{title: "Queries without an answer in 4.5 s", unit: "percentunit", queries: []query{
				q(`sum(rate(coredns_ofpunt_packet_ins_total{ofBridge, reason="deadline"}perSecond)) / sum(rate(coredns_ofpunt_packet_ins_total{ofBridge, result=~"answered|resumed"}perSecond))`, "deadline")}},
			{title: "Probe through the switch and back", description: "As long as a query waits for the switch and this process.", unit: "s", queries: quantiles("coredns_ofpunt_probe_duration_seconds_bucket{ofBridge}", "")},
		}},
		{"Refusals", []panel{
			{title: "Refused by reason", unit: "reqps", queries: []query{q(`sum by (reason) (rate(coredns_ofpunt_packet_ins_total{ofBridge, result="refused"}perSecond))`, "{{reason}}")}},
			{title: "Dropped by reason", unit: "reqps", queries: []query{q(`sum by (reason) (rate(coredns_ofpunt_packet_ins_total{ofBridge, result="dropped"}perSecond))`, "{{reason}}")}},
			{title: "Dropped by the switch, over rate", unit: "pps", queries: []query{q("rate(coredns_ofpunt_rate_drops_total{ofBridge}perSecond)", "{{bridge}}")}},
			{title: "Refused by limits of labels", unit: "reqps", queries: []query{q("sum by (limit, property) (rate(coredns_ofpunt_limit_refused_total{ofBridge}perSecond))", "{{limit}} {{property}}")}},
			{title: "Networks that are refused most", description: "With metrics network in the Corefile. The log names the ports.", unit: "reqps", queries: []query{
				q("topk(10, sum by (switch, network, property) (rate(coredns_ofpunt_network_refused_total{ofBridge}perSecond)))", "{{switch}} {{network}} {{property}}")}},
			{title: "TCP connections", description: "1,024 at most.", unit: "none", queries: []query{q("coredns_ofpunt_tcp_connections{ofBridge}", "{{bridge}}")}},
		}},
		{"Egress by name", []panel{
			{title: "Open destinations", description: "That answers have opened for guests with a policy. 65,536 at most.", unit: "none", queries: []query{q("coredns_ofpunt_open_destinations{ofBridge}", "{{bridge}}")}},
			{title: "Guests that no ACL closes", description: "They have a policy, and reach any address.", unit: "none", queries: []query{q("coredns_ofpunt_guests_unenforced{ofBridge}", "{{bridge}}")}},
			{title: "Verdicts", description: "Of policies, on queries and answers of guests.", unit: "cps", queries: []query{q("sum by (verdict) (rate(coredns_egress_verdicts_total{ofServer}perSecond))", "{{verdict}}")}},
		}},
		{"Switch", []panel{
			{title: "Flows in the switch", unit: "none", queries: []query{q("coredns_ofpunt_flows{ofBridge}", "{{bridge}}")}},
			{title: "Flows installed", description: "new, or lost and put back.", unit: "cps", queries: []query{q("sum by (reason) (rate(coredns_ofpunt_flow_installs_total{ofBridge}perSecond))", "{{reason}}")}},
			{title: "Age of the lease", description: "It is renewed at a third of its time.", unit: "s", queries: []query{q("time() - coredns_ofpunt_lease_renewed_timestamp_seconds{ofBridge}", "{{bridge}}")}},
			{title: "Lapsed leases", unit: "none", queries: []query{q("increase(coredns_ofpunt_lease_expiries_total{ofBridge}perSecond)", "{{bridge}}")}},
			{title: "TCP segments lost", description: "They found no room in the queue to the switch.", unit: "pps", queries: []query{q("rate(coredns_ofpunt_tcp_segments_lost_total{ofBridge}perSecond)", "{{bridge}}")}},
		}},
		{"Databases", []panel{
			{title: "Connected and complete", unit: "none", queries: []query{q("coredns_ovnhosts_database_up{ofNode}", "{{schema}}"), q("coredns_ofpunt_local_database_up{ofBridge}", "Open_vSwitch of {{bridge}}")}},
			{title: "Since the last change of names", description: "The age of the snapshot. It grows while nothing changes, too.", unit: "s", queries: []query{q("time() - coredns_ovnhosts_snapshot_timestamp_seconds{ofNode}", "{{database}}")}},
			{title: "In the snapshot", unit: "none", queries: []query{q("coredns_ovnhosts_rows{ofNode}", "{{kind}}")}},
			{title: "Time to make the snapshot", unit: "s", queries: []query{q("coredns_ovnhosts_snapshot_rebuild_seconds{ofNode}", "{{database}}")}},
			{title: "Values that could not be read", unit: "none", queries: []query{q("coredns_ovnhosts_bad_values_total{ofNode}", "{{database}}")}},
		}},
		{"Upstreams", []panel{
			{title: "Answers of upstreams", unit: "reqps", queries: []query{q("sum by (to, rcode) (rate(coredns_proxy_request_duration_seconds_count{ofNode}perSecond))", "{{to}} {{rcode}}")}},
			{title: "Time to their answers", unit: "s", queries: quantiles("coredns_proxy_request_duration_seconds_bucket{ofNode}", "to")},
			{title: "Failed health checks", unit: "cps", queries: []query{q("sum by (to) (rate(coredns_proxy_healthcheck_failures_total{ofNode}perSecond))", "{{to}}")}},
		}},
		{"Cache", []panel{
			{title: "Answered from the cache", unit: "percentunit", queries: []query{q("sum(rate(coredns_cache_hits_total{ofServer}perSecond)) / sum(rate(coredns_cache_requests_total{ofServer}perSecond))", "hits")}},
			{title: "Entries", unit: "none", queries: []query{q("sum by (type) (coredns_cache_entries{ofServer})", "{{type}}")}},
			{title: "Hits and misses", unit: "reqps", queries: []query{q("sum by (type) (rate(coredns_cache_hits_total{ofServer}perSecond))", "hit, {{type}}"), q("sum(rate(coredns_cache_misses_total{ofServer}perSecond))", "miss")}},
		}},
		{"Process", []panel{
			{title: "Processor time", unit: "percentunit", queries: []query{q("rate(process_cpu_seconds_total{ofNode}perSecond)", "{{instance}}")}},
			{title: "Memory", unit: "bytes", queries: []query{q("process_resident_memory_bytes{ofNode}", "resident"), q("go_memstats_heap_inuse_bytes{ofNode}", "heap")}},
			{title: "Goroutines", unit: "none", queries: []query{q("go_goroutines{ofNode}", "{{instance}}")}},
		}},
	},
}
