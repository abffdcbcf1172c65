/// A small generator, so that what is drawn can be drawn again from the same seed.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// One that always draws the same.
    pub fn new(seed: u64) -> Self {
        // A state of zero would stay zero; the factor spreads seeds that lie close together.
        Self((seed ^ 0x5eed).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `sides`.
    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let sides = u64::try_from(sides).expect("few sides");
        usize::try_from((self.0 >> 11) % sides).expect("few sides")
    }

    /// One of them.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.roll(from.len())]
    }
}
