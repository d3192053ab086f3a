// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// module is that of the packages whose benchmarks are run, from whatever folder of it.
const module = "github.com/puntdns/puntdns"

// code runs the benchmarks of the code that every query passes.
func (b *bench) code() {
	times, allocs := b.report.table(tCode), b.report.table(tAllocs)
	for _, run := range []struct{ pkg, benchmarks string }{
		{module + "/ofpunt/openflow", "PacketInDecode|AppendPacketOut"},
		{module + "/ofpunt/frame", "Decode$|AppendReply"},
		{module + "/internal/ovn/ovndb", "LookupAtSize"},
	} {
		cmd := exec.Command("go", "test", "-run", "^$", "-bench", run.benchmarks, "-benchtime", b.benchTime,
			"-count", strconv.Itoa(b.rounds), "-timeout", "20m", run.pkg)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			b.t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
		}
		for _, m := range benchLine.FindAllStringSubmatch(string(out), -1) {
			name := strings.ReplaceAll(m[1], "_", " ")
			ns, err1 := strconv.ParseFloat(m[2], 64)
			n, err2 := strconv.ParseFloat(m[3], 64)
			if err1 != nil || err2 != nil {
				b.t.Fatalf("%q", m[0])
			}
			times.put(name, ns)
			allocs.put(name, n)
		}
		b.say("code of %s measured", run.pkg)
	}
}

var benchLine = regexp.MustCompile(`(?m)^Benchmark(\S+?)(?:-\d+)?\s+\d+\s+([\d.]+) ns/op.*?(\d+) allocs/op`)
