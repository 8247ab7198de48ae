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

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-llm-cache/caddy-llm-cache/metric"
)

// queueMetrics live as long as the process, as all metrics do.
var queueMetrics = struct {
	running, waiting, expected prometheus.Gauge
	wait                       prometheus.Histogram
	refused                    *prometheus.CounterVec
}{
	running:  metric.Gauge("queue_running", "Requests that have a slot."),
	waiting:  metric.Gauge("queue_waiting", "Requests that wait for a slot."),
	expected: metric.Gauge("queue_expected_wait_seconds", "How long a request that came now would wait for a slot, by how long those before took."),
	wait: metric.Histogram("queue_wait_seconds", "How long requests waited for a slot, those that gave up included.",
		0.001, 0.1, 1, 3, 10, 30, 60, 120, 300, 600),
	refused: metric.CounterVec("queue_refused_total", "Requests answered by 429, because the queue was full or had no slot for too long.", "reason"),
}
