// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package content

// MinFold is the saving in bytes below which a block is not folded.
const MinFold = 300

// MinTrait is the length in bytes below which a result is not worth pruning.
const MinTrait = 200
