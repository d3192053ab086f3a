// SPDX-License-Identifier: Apache-2.0

package ovnhosts

import (
	"github.com/coredns/coredns/plugin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/puntdns/puntdns/internal/metricset"
)

var answers = promauto.NewCounterVec(prometheus.CounterOpts{
	Namespace: plugin.Namespace, Subsystem: name, Name: "answers_total",
	Help: "Answers by what gave them: dns (a DNS row), port (a hostname), zone (the domain's SOA and NS records and the address of its server), nodata (the name without the type), nxdomain.",
}, []string{"server", "view", "answer"})

// Gauges of the databases. They are computed at each scrape, since a snapshot ages without
// an event during an outage.
var (
	described = metricset.New(name)

	descUp        = described.Desc("database_up", "1 while the database is connected and its contents are complete, else 0.", "database", "schema")
	descTimestamp = described.Desc("snapshot_timestamp_seconds", "When the snapshot that answers was made, in Unix time.", "database")
	descRows      = described.Desc("rows", "What is in the snapshot, by kind.", "database", "kind")
	descRebuild   = described.Desc("snapshot_rebuild_seconds", "How long it took to make the snapshot from the one before.", "database")
	descSaved     = described.Desc("snapshot_saved", "1 while what is known of the database is the saved snapshot of the process before, else 0.", "database", "schema")
	descRead      = described.Desc("database_read_bytes_total", "Bytes that the database has sent.", "database", "schema")
	descWritten   = described.Desc("database_written_bytes_total", "Bytes that were sent to the database.", "database", "schema")
	descSyncs     = described.Desc("database_syncs_total", "How often the database has come into sync, by what it has sent: contents (all of them) or changes (what had changed since).", "database", "schema", "sent")
	descChanges   = described.Desc("database_condition_changes_total", "Requests for other rows than before.", "database", "schema")
	descBad       = described.Desc("bad_values_total", "Addresses and names in the databases that could not be read.", "database")
)

func init() { prometheus.MustRegister(collector{described}) }

// collector is a prometheus.Collector of all sources of the process.
type collector struct{ *metricset.Set }

func (collector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for database, s := range openSources.all() {
		for _, d := range s.Status() {
			up := 0.
			if d.Synced {
				up = 1
			}
			gauge(descUp, up, database, d.Database)
			fromFile := 0.
			if !d.Saved.IsZero() {
				fromFile = 1
			}
			gauge(descSaved, fromFile, database, d.Database)
			counter := func(desc *prometheus.Desc, v uint64, labels ...string) {
				ch <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(v), append([]string{database, d.Database}, labels...)...)
			}
			counter(descRead, d.Counts.BytesRead)
			counter(descWritten, d.Counts.BytesWritten)
			counter(descSyncs, d.Counts.Contents, "contents")
			counter(descSyncs, d.Counts.Resumed, "changes")
			counter(descChanges, d.Counts.ConditionChanges)
		}
		snapshot := s.Snapshot()
		if !snapshot.Time.IsZero() {
			gauge(descTimestamp, float64(snapshot.Time.UnixMicro())/1e6, database)
		}
		gauge(descRebuild, snapshot.Stats.Rebuild.Seconds(), database)
		gauge(descRows, float64(snapshot.Stats.Networks), database, "networks")
		gauge(descRows, float64(snapshot.Stats.Ports), database, "ports")
		gauge(descRows, float64(snapshot.Stats.Rows), database, "dns")
		gauge(descRows, float64(snapshot.Stats.Names), database, "names")
		ch <- prometheus.MustNewConstMetric(descBad, prometheus.CounterValue, float64(snapshot.Stats.BadValues), database)
	}
}
