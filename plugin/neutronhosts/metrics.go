// SPDX-License-Identifier: Apache-2.0

package neutronhosts

import (
	"github.com/coredns/coredns/plugin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/puntdns/puntdns/internal/addnhosts"
)

var answers = promauto.NewCounterVec(prometheus.CounterOpts{
	Namespace: plugin.Namespace, Subsystem: name, Name: "answers_total",
	Help: "Answers by what gave them: port (a name in a file), zone (the domain's SOA and NS records and the address of its server), nodata (the name without the type), nxdomain.",
}, []string{"server", "view", "answer"})

// What is read of the folders, computed at each scrape.
var (
	descNetworks  = desc("networks", "Networks that have a file, and were read.")
	descNames     = desc("names", "Names in all files, bare ones and those with a domain.")
	descUnread    = desc("files_unread", "Files and folders that can't be read.")
	descBad       = desc("bad_lines_total", "Lines and names in the files that could not be read.")
	descTimestamp = desc("snapshot_timestamp_seconds", "When a file has changed last, in Unix time.")
)

func desc(metric, help string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(plugin.Namespace, name, metric), help, []string{"path"}, nil)
}

func init() { prometheus.MustRegister(collector{}) }

// collector is a prometheus.Collector of all folders of the process.
type collector struct{}

func (collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descNetworks, descNames, descUnread, descBad, descTimestamp} {
		ch <- d
	}
}

func (collector) Collect(ch chan<- prometheus.Metric) {
	for _, source := range addnhosts.All() {
		s := source.Snapshot()
		if s == nil {
			continue
		}
		gauge := func(d *prometheus.Desc, v float64) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, source.Dir())
		}
		gauge(descNetworks, float64(s.Stats.Networks))
		gauge(descNames, float64(s.Stats.Names))
		gauge(descUnread, float64(s.Stats.Unread))
		gauge(descTimestamp, float64(s.Time.UnixMicro())/1e6)
		ch <- prometheus.MustNewConstMetric(descBad, prometheus.CounterValue, float64(s.Stats.BadLines), source.Dir())
	}
}
