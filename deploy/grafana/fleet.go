// SPDX-License-Identifier: Apache-2.0

package main

// fleet is the dashboard of all nodes: sums, and the nodes that stand out.
var fleet = board{
	uid: "puntdns-fleet", title: "puntdns: all nodes",
	rows: []row{
		{"State", []panel{
			{title: "Nodes", unit: "none", stat: true, queries: []query{q(`count(up{job="puntdns"})`, "nodes")}},
			{title: "Nodes down", unit: "none", stat: true, queries: []query{q(`count(up{job="puntdns"} == 0) or vector(0)`, "down")}},
			{title: "Bridges not ready", unit: "none", stat: true, queries: []query{q("count(coredns_ofpunt_ready == 0) or vector(0)", "not ready")}},
			{title: "Guests served", unit: "none", stat: true, queries: []query{q("sum(coredns_ofpunt_guests)", "guests")}},
			{title: "Interfaces not served", unit: "none", stat: true, queries: []query{q("sum(coredns_ofpunt_interfaces_unserved)", "interfaces")}},
			{title: "Alerts", unit: "none", stat: true, queries: []query{q(`count(ALERTS{alertstate="firing", alertname=~"Puntdns.*"}) or vector(0)`, "firing")}},
		}},
		{"Traffic", []panel{
			{title: "Queries over UDP by result", unit: "reqps", queries: []query{
				q(`sum by (result) (rate(coredns_ofpunt_packet_ins_total{result!="taken", reason!~"neighbor|no-connection|connections"}perSecond))`, "{{result}}")}},
			{title: "Busiest nodes", unit: "reqps", queries: []query{
				q(`topk(10, sum by (instance) (rate(coredns_ofpunt_packet_ins_total{result!="taken", reason!~"neighbor|no-connection|connections"}perSecond)))`, "{{instance}}")}},
			{title: "Busiest networks", description: "With metrics network in the Corefile.", unit: "reqps", queries: []query{
				q("topk(10, sum by (switch, network) (rate(coredns_ofpunt_network_queries_total{}perSecond)))", "{{switch}} {{network}}")}},
		}},
		{"Latency", []panel{
			{title: "Packet-in to answer, all nodes", unit: "s", queries: quantiles("coredns_ofpunt_answer_duration_seconds_bucket", "")},
			{title: "Slowest nodes, 99 % within", unit: "s", queries: []query{
				q("topk(10, histogram_quantile(0.99, sum by (le, instance) (rate(coredns_ofpunt_answer_duration_seconds_bucketperSecond))))", "{{instance}}")}},
			{title: "Queries without an answer in 4.5 s", unit: "percentunit", queries: []query{
				q(`topk(10, sum by (instance) (rate(coredns_ofpunt_packet_ins_total{reason="deadline"}perSecond)) / sum by (instance) (rate(coredns_ofpunt_packet_ins_total{result=~"answered|resumed"}perSecond)))`, "{{instance}}")}},
		}},
		{"Refusals", []panel{
			{title: "Refused by reason", unit: "reqps", queries: []query{q(`sum by (reason) (rate(coredns_ofpunt_packet_ins_total{result="refused"}perSecond))`, "{{reason}}")}},
			{title: "Dropped by reason", unit: "reqps", queries: []query{q(`sum by (reason) (rate(coredns_ofpunt_packet_ins_total{result="dropped"}perSecond))`, "{{reason}}")}},
			{title: "Nodes whose switch drops most over rate", unit: "pps", queries: []query{q("topk(10, sum by (instance) (rate(coredns_ofpunt_rate_drops_total{}perSecond)))", "{{instance}}")}},
			{title: "Networks that are refused most", description: "With metrics network in the Corefile. The log of the node names the ports.", unit: "reqps", queries: []query{
				q("topk(10, sum by (switch, network, property) (rate(coredns_ofpunt_network_refused_total{}perSecond)))", "{{switch}} {{network}} {{property}}")}},
			{title: "Most TCP connections", description: "1,024 at most on a bridge.", unit: "none", queries: []query{q("topk(10, coredns_ofpunt_tcp_connections)", "{{instance}} {{bridge}}")}},
		}},
		{"Switch", []panel{
			{title: "Bridges that are not connected", unit: "none", queries: []query{q("count(coredns_ofpunt_connected == 0) or vector(0)", "bridges")}},
			{title: "Flows lost and put back", unit: "cps", queries: []query{q(`topk(10, sum by (instance) (rate(coredns_ofpunt_flow_installs_total{reason="lost"}perSecond)))`, "{{instance}}")}},
			{title: "Lapsed leases", unit: "none", queries: []query{q("topk(10, increase(coredns_ofpunt_lease_expiries_total{}perSecond))", "{{instance}} {{bridge}}")}},
			{title: "Oldest leases", unit: "s", queries: []query{q("topk(10, time() - coredns_ofpunt_lease_renewed_timestamp_seconds)", "{{instance}} {{bridge}}")}},
		}},
		{"Databases", []panel{
			{title: "Nodes without a database", unit: "none", queries: []query{
				q("count by (schema) (coredns_ovnhosts_database_up == 0) or vector(0)", "{{schema}}"), q("count(coredns_ofpunt_local_database_up == 0) or vector(0)", "Open_vSwitch")}},
			{title: "Longest time to make a snapshot", unit: "s", queries: []query{q("topk(10, coredns_ovnhosts_snapshot_rebuild_seconds)", "{{instance}}")}},
			{title: "Most names", unit: "none", queries: []query{q(`topk(10, coredns_ovnhosts_rows{kind="names"})`, "{{instance}}")}},
		}},
		{"Upstreams", []panel{
			{title: "Answers of upstreams", unit: "reqps", queries: []query{q("sum by (to, rcode) (rate(coredns_proxy_request_duration_seconds_countperSecond))", "{{to}} {{rcode}}")}},
			{title: "Time to their answers, 99 % within", unit: "s", queries: []query{
				q("histogram_quantile(0.99, sum by (le, to) (rate(coredns_proxy_request_duration_seconds_bucketperSecond)))", "{{to}}")}},
			{title: "Failed health checks", unit: "cps", queries: []query{q("sum by (to) (rate(coredns_proxy_healthcheck_failures_totalperSecond))", "{{to}}")}},
		}},
		{"Cache", []panel{
			{title: "Answered from the cache", unit: "percentunit", queries: []query{
				q(`sum(rate(coredns_cache_hits_total{server=~"ofpunt://.*"}perSecond)) / sum(rate(coredns_cache_requests_total{server=~"ofpunt://.*"}perSecond))`, "hits")}},
			{title: "Fewest answers from the cache", unit: "percentunit", queries: []query{
				q(`bottomk(10, sum by (instance) (rate(coredns_cache_hits_total{server=~"ofpunt://.*"}perSecond)) / sum by (instance) (rate(coredns_cache_requests_total{server=~"ofpunt://.*"}perSecond)))`, "{{instance}}")}},
		}},
		{"Process", []panel{
			{title: "Most processor time", unit: "percentunit", queries: []query{q(`topk(10, rate(process_cpu_seconds_total{job="puntdns"}perSecond))`, "{{instance}}")}},
			{title: "Most memory", unit: "bytes", queries: []query{q(`topk(10, process_resident_memory_bytes{job="puntdns"})`, "{{instance}}")}},
			{title: "Corefiles that were refused", unit: "none", queries: []query{q(`sum(increase(coredns_reload_failed_total{job="puntdns"}perSecond))`, "refused")}},
		}},
	},
}
