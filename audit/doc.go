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

// Package audit keeps one record of every turn: what was asked, by whom, what it
// cost and what the client's own bytes would have cost.
//
// A [Queue] takes records from requests without ever waiting and writes them in
// batches to a [Store]: SQLite, PostgreSQL or lines of JSON. Where a store is
// down or slow, the oldest records lose their details and are counted together,
// so that memory is bounded and no turn goes uncounted.
package audit
