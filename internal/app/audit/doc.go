// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package audit keeps one record of every turn: what was asked, by whom, what it
// cost and what the client's own bytes would have cost.
//
// A [Queue] takes records from requests without ever waiting and writes them in
// batches to a [Store]: SQLite, PostgreSQL or lines of JSON. Where a store is
// down or slow, the oldest records lose their details and are counted together,
// so that memory is bounded and no turn goes uncounted.
package audit
