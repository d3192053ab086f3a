// SPDX-License-Identifier: Apache-2.0

package ovnhosts

import (
	"slices"
	"time"

	"github.com/puntdns/puntdns/internal/metricset"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/ovndb"
)

var answers = series.QueryCounter("answers_total",
	"Answers by what gave them: dns (a DNS row), port (a hostname), zone (the domain's SOA and NS records and the address of its server), nodata (the name without the type), nxdomain.", "answer")

// Metrics of the databases, computed at each scrape: in an outage a snapshot ages without an event. Sources
// with the same endpoints share series.
var (
	series = metricset.New(name)

	databaseUp        = series.ScrapedGauge("database_up", "1 while the database is connected and its contents are complete, else 0.", "database", "schema")
	databaseTimestamp = series.ScrapedGauge("snapshot_timestamp_seconds", "When the snapshot that answers was made, in Unix time.", "database")
	databaseRows      = series.ScrapedGauge("rows", "What is in the snapshot, by kind.", "database", "kind")
	databaseRebuild   = series.ScrapedGauge("snapshot_rebuild_seconds", "How long it took to make the snapshot from the one before.", "database")
	databaseSaved     = series.ScrapedGauge("snapshot_saved", "1 while what is known of the database is the saved snapshot of the process before, else 0.", "database", "schema")
	databaseRead      = series.ScrapedCounter("database_read_bytes_total", "Bytes that the database has sent.", "database", "schema")
	databaseWritten   = series.ScrapedCounter("database_written_bytes_total", "Bytes that were sent to the database.", "database", "schema")
	databaseSyncs     = series.ScrapedCounter("database_syncs_total", "How often the database has come into sync, by what it has sent: contents (all of them) or changes (what had changed since).", "database", "schema", "sent")
	databaseChanges   = series.ScrapedCounter("database_condition_changes_total", "Requests for other rows than before.", "database", "schema")
	databaseBad       = series.ScrapedCounter("bad_values_total", "Addresses and names in the databases that could not be read.", "database")
)

func init() { series.OnScrape(scrape) }

func scrape(to metricset.Scrape) {
	scrapeGauges(to, openSources.all())
	scrapeCounters(to, ovndb.AllTotals())
}

type gauges struct {
	status   ovndb.Status
	snapshot time.Time // zero before the first
	stats    ovn.Stats
}

// join combines two sources: up if both are, the older snapshot, the larger counts.
func (g gauges) join(other gauges) gauges {
	joined := gauges{slices.Clone(g.status), g.snapshot, g.stats}
	for _, d := range other.status {
		at := slices.IndexFunc(joined.status, func(of ovndb.DatabaseStatus) bool { return of.Database == d.Database })
		if at < 0 {
			joined.status = append(joined.status, d)
			continue
		}
		of := &joined.status[at]
		of.Synced = of.Synced && d.Synced
		if of.Saved.IsZero() {
			of.Saved = d.Saved
		}
	}
	if g.snapshot.IsZero() || !other.snapshot.IsZero() && other.snapshot.Before(g.snapshot) {
		joined.snapshot = other.snapshot
	}
	stats := &joined.stats
	stats.Rebuild = max(stats.Rebuild, other.stats.Rebuild)
	stats.Networks, stats.Ports = max(stats.Networks, other.stats.Networks), max(stats.Ports, other.stats.Ports)
	stats.Rows, stats.Names = max(stats.Rows, other.stats.Rows), max(stats.Names, other.stats.Names)
	return joined
}

func scrapeGauges(to metricset.Scrape, sources []openSource) {
	all := map[string]gauges{}
	for _, s := range sources {
		endpoints, snapshot := s.config.Endpoints(), s.Snapshot()
		g := gauges{s.Status(), snapshot.Time, snapshot.Stats}
		if before, ok := all[endpoints]; ok {
			g = before.join(g)
		}
		all[endpoints] = g
	}
	for endpoints, g := range all {
		for _, d := range g.status {
			to.Put(databaseUp, metricset.Flag(d.Synced), endpoints, d.Database)
			to.Put(databaseSaved, metricset.Flag(!d.Saved.IsZero()), endpoints, d.Database)
		}
		if !g.snapshot.IsZero() {
			to.Put(databaseTimestamp, float64(g.snapshot.UnixMicro())/1e6, endpoints)
		}
		to.Put(databaseRebuild, g.stats.Rebuild.Seconds(), endpoints)
		to.Put(databaseRows, float64(g.stats.Networks), endpoints, "networks")
		to.Put(databaseRows, float64(g.stats.Ports), endpoints, "ports")
		to.Put(databaseRows, float64(g.stats.Rows), endpoints, "dns")
		to.Put(databaseRows, float64(g.stats.Names), endpoints, "names")
	}
}

func scrapeCounters(to metricset.Scrape, all map[string]ovndb.Totals) {
	for endpoints, of := range all {
		to.Put(databaseBad, float64(of.BadValues), endpoints)
		for database, counts := range of.Databases {
			to.Put(databaseRead, float64(counts.BytesRead), endpoints, database)
			to.Put(databaseWritten, float64(counts.BytesWritten), endpoints, database)
			to.Put(databaseSyncs, float64(counts.Contents), endpoints, database, "contents")
			to.Put(databaseSyncs, float64(counts.Resumed), endpoints, database, "changes")
			to.Put(databaseChanges, float64(counts.ConditionChanges), endpoints, database)
		}
	}
}
