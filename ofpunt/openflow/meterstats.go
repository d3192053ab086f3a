// SPDX-License-Identifier: Apache-2.0

package openflow

import (
	"context"
	"fmt"
)

// MeterConfig is a meter's configuration, in packets or kilobits per second.
type MeterConfig struct {
	ID    uint32
	Rate  uint32 // of the first band
	Burst uint32 // of the first band
}

// MeterStats has the counters of a meter.
type MeterStats struct {
	ID      uint32
	Packets uint64 // received
	Dropped uint64 // by all bands
}

const (
	meterConfigLen = 8
	meterBandLen   = 16
	meterStatsLen  = 40
	bandStatsLen   = 16
)

func appendMeterRequest(b []byte, v Version, xid uint32, typ uint16) ([]byte, error) {
	start := len(b)
	b = appendMultipart(b, v, xid, typ)
	if typ != multipartMeterFeatures {
		b = be.AppendUint32(b, meterAll)
		b = append(b, 0, 0, 0, 0)
	}
	return endMessage(b, start)
}

// OpenFlow 1.3.5, A.3.5.8; 1.5.1, 7.3.5.15
func decodeMeterConfigs(b []byte) ([]MeterConfig, error) {
	var all []MeterConfig
	for len(b) > 0 {
		if len(b) < meterConfigLen {
			return nil, malformed("meter configuration: %d bytes left", len(b))
		}
		n := int(be.Uint16(b))
		if n < meterConfigLen || n > len(b) {
			return nil, malformed("meter configuration: entry of %d bytes where %d are left", n, len(b))
		}
		m := MeterConfig{ID: be.Uint32(b[4:])}
		if band := b[meterConfigLen:n]; len(band) >= meterBandLen {
			m.Rate, m.Burst = be.Uint32(band[4:]), be.Uint32(band[8:])
		}
		all = append(all, m)
		b = b[n:]
	}
	return all, nil
}

// OpenFlow 1.3.5, A.3.5.7; 1.5.1, 7.3.5.14
func decodeMeterStats(b []byte) ([]MeterStats, error) {
	var all []MeterStats
	for len(b) > 0 {
		if len(b) < meterStatsLen {
			return nil, malformed("meter statistics: %d bytes left", len(b))
		}
		n := int(be.Uint16(b[4:]))
		if n < meterStatsLen || n > len(b) {
			return nil, malformed("meter statistics: entry of %d bytes where %d are left", n, len(b))
		}
		m := MeterStats{ID: be.Uint32(b), Packets: be.Uint64(b[16:])}
		for bands := b[meterStatsLen:n]; len(bands) >= bandStatsLen; bands = bands[bandStatsLen:] {
			m.Dropped += be.Uint64(bands)
		}
		all = append(all, m)
		b = b[n:]
	}
	return all, nil
}

// OpenFlow 1.3.5, A.3.5.9; 1.5.1, 7.3.5.16
func decodeMaxMeter(b []byte) (uint32, error) {
	if len(b) < 16 {
		return 0, malformed("meter features of %d bytes", len(b))
	}
	return be.Uint32(b), nil
}

// Meters returns all meters of the bridge.
func (c *Conn) Meters(ctx context.Context) ([]MeterConfig, error) {
	b, err := c.askMeters(ctx, multipartMeterConfig)
	if err != nil {
		return nil, fmt.Errorf("meter configuration: %w", err)
	}
	return decodeMeterConfigs(b)
}

// MeterStats returns all meters' counters.
func (c *Conn) MeterStats(ctx context.Context) ([]MeterStats, error) {
	b, err := c.askMeters(ctx, multipartMeterStats)
	if err != nil {
		return nil, fmt.Errorf("meter statistics: %w", err)
	}
	return decodeMeterStats(b)
}

// MaxMeter returns the highest meter id; 0 means that the datapath has no meters.
func (c *Conn) MaxMeter(ctx context.Context) (uint32, error) {
	b, err := c.askMeters(ctx, multipartMeterFeatures)
	if err != nil {
		return 0, fmt.Errorf("meter features: %w", err)
	}
	return decodeMaxMeter(b)
}

func (c *Conn) askMeters(ctx context.Context, typ uint16) ([]byte, error) {
	return c.multipart(ctx, func(xid uint32) ([]byte, error) {
		return appendMeterRequest(nil, c.version, xid, typ)
	})
}
