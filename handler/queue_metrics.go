// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package handler

import "github.com/prometheus/client_golang/prometheus"

// queueMetrics live as long as the process, as all metrics do.
var queueMetrics = struct {
	running, waiting, expected prometheus.Gauge
	wait                       prometheus.Histogram
	refused                    *prometheus.CounterVec
}{
	running: prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "queue_running", Help: "Requests that have a slot.",
	}),
	waiting: prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "queue_waiting", Help: "Requests that wait for a slot.",
	}),
	expected: prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "queue_expected_wait_seconds", Help: "How long a request that came now would wait for a slot, by how long those before took.",
	}),
	wait: prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "queue_wait_seconds", Help: "How long requests waited for a slot, those that gave up included.",
		Buckets: []float64{0.001, 0.1, 1, 3, 10, 30, 60, 120, 300, 600},
	}),
	refused: counterVec("queue_refused_total", "Requests answered by 429, because the queue was full or had no slot for too long.", "reason"),
}
