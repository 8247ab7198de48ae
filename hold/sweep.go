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

package hold

import (
	"time"
	"weak"
)

// Sweep has expire called after some time, and again after as long as that returns, until
// it is 0: prompts stay in memory no longer than they may, although nobody asks any more.
// What is not used otherwise is not kept in memory for this.
func Sweep[T any](of *T, d time.Duration, expire func(*T) time.Duration) {
	kept := weak.Make(of)
	time.AfterFunc(d, func() {
		of := kept.Value()
		if of == nil {
			return
		}
		if next := expire(of); next > 0 {
			Sweep(of, next, expire)
		}
	})
}
