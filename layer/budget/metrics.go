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

package budget

import "github.com/caddy-llm-cache/caddy-llm-cache/metric"

var waited = metric.CounterOf("bodies_waited_total", "Requests that waited for memory, by how they went on: served, unread, refused.", "outcome",
	"served", "unread", "refused")

var gaveWay = metric.Counter("bodies_gave_way_total", "Uploads that stalled and were ended, because other requests needed their memory.")

// PassedUnread counts a request that found no room and passed without being read.
func PassedUnread() { waited.WithLabelValues("unread").Inc() }

// Refused counts a request that found no room and was answered by 503.
func Refused() { waited.WithLabelValues("refused").Inc() }

func init() {
	metric.GaugeFunc("bodies_bytes", "Memory that is held for the bodies of requests in flight.", func() float64 { return float64(Bodies.Held()) })
	metric.GaugeFunc("bodies_limit_bytes", "Memory that the bodies of requests in flight may take.", func() float64 { return float64(Bodies.Limit()) })
}
