// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package audit keeps one record of every turn: the tenant, the model, the cost, and the cost that
// the client's own bytes would have had.
//
// A [Queue] takes records from requests without blocking and writes them in batches to a [Store]:
// SQLite, PostgreSQL or lines of JSON. While a store is down or slow, the oldest records lose their
// details and are counted together. So memory is bounded, and no turn goes uncounted.
package audit
