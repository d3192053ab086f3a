// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

func TestJudge(t *testing.T) {
	r := &report{}
	r.table(tLocal).put(pPuntdns, 30)
	r.table(tLocal).put(pPuntdns, 10)
	r.table(tLocal).put(pPuntdns, 20)
	r.table(tLocal).put(pNative, 10)
	for _, tt := range []struct {
		name     string
		bar      bar
		ratio    float64
		kept, ok bool
	}{
		{"kept", bar{table: tLocal, of: pPuntdns, to: pNative, least: 2}, 2, true, true},
		{"missed below", bar{table: tLocal, of: pPuntdns, to: pNative, least: 2.1}, 2, false, true},
		{"missed above", bar{table: tLocal, of: pPuntdns, to: pNative, most: 1.9}, 2, false, true},
		{"alone", bar{table: tLocal, of: pPuntdns, most: 20}, 20, true, true},
		{"not measured", bar{table: tLocal, of: pPuntdns, to: pStock, least: 1}, 0, false, false},
	} {
		if ratio, kept, ok := r.judge(tt.bar); ratio != tt.ratio || kept != tt.kept || ok != tt.ok {
			t.Errorf("%s: %v, %v, %v", tt.name, ratio, kept, ok)
		}
	}
}

// What was measured in another root stands beside what was measured here, and is told apart.
func TestMerge(t *testing.T) {
	r := &report{}
	r.table(tLocal).put(pNative, 10)
	r.merge(&measured{Versions: "ovn 26", Tables: []measuredTable{
		{tLocal, []string{pNative}, map[string][]float64{pNative: {30, 20}}},
		{tForward50, []string{pPuntdns}, map[string][]float64{pPuntdns: {1}}},
	}})
	if got := r.measured(tLocal); got.median(pNative) != 10 || got.median(newest(pNative)) != 25 || !got.here() {
		t.Errorf("%+v", got)
	}
	if r.measured(tForward50).here() {
		t.Error("a table of the other root alone counts as measured here")
	}
}

func TestMedian(t *testing.T) {
	for _, tt := range []struct {
		values []float64
		want   float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{4, 1}, 2.5}, {[]float64{9, 1, 5}, 5}} {
		if got := median(tt.values); got != tt.want {
			t.Errorf("median of %v: %v", tt.values, got)
		}
	}
}
