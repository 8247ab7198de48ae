// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package content

// MinFold is the minimum saving of a folded block, in bytes.
const MinFold = 300

// MinTrait is the minimum length of a result to prune, in bytes.
const MinTrait = 200
