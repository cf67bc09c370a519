//! What a machine pays for a score: one example's part of the dual, by its β.

/// No curvature counts as less.
pub(super) const MIN_CURVATURE: f64 = 1e-12;
/// Logistic regression starts from this share of c; any less is 0.
const MIN_SHARE: f64 = f64::MIN_POSITIVE;
/// Of c - α, as a share of c: no float but c itself leaves less.
const MIN_REST: f64 = 0.25 * f64::EPSILON;
/// Rounds of a step of logistic regression. Its bounds are at most 1,500 apart, so 70
/// bisections are enough, with Newton's steps between them.
const MAX_ROUNDS: usize = 200;

/// What a machine pays for a score: see the [module](super).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Loss {
    /// Support vector classification; of preferences, ranking.
    Hinge,
    /// The same with squares.
    SquaredHinge,
    /// Logistic regression.
    Logistic,
    /// Support vector regression, with the half width of its tube.
    Epsilon(f64),
    /// The same with squares; ridge regression for 0.
    SquaredEpsilon(f64),
    /// Novelty detection, with the sum of all β.
    OneClass(f64),
}

/// One example's part of the dual: see the module's table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Term {
    pub(super) target: f64,
    pub(super) epsilon: f64,
    pub(super) ridge: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// How fast the dual falls when β grows, and when it shrinks how fast it rises: infinite
/// where it cannot.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slopes {
    pub(super) up: f64,
    pub(super) down: f64,
}

impl Slopes {
    /// How much is to be gained by changing β, per unit; below 0: it is right where it is.
    pub(super) fn violation(self, score: f64) -> f64 {
        (self.up - score).max(score - self.down)
    }

    /// The slope, where there is one in both directions.
    pub(super) fn middle(self) -> f64 {
        f64::midpoint(self.up, self.down)
    }
}

impl Loss {
    pub(super) fn is_of_labels(self) -> bool {
        matches!(self, Self::Hinge | Self::SquaredHinge | Self::Logistic)
    }

    pub(super) fn term(self, target: f64, cost: f64) -> Term {
        let two_sided =
            Term { target, epsilon: 0.0, ridge: 0.0, low: -cost, high: cost };
        let one_sided = |high: f64| {
            let (low, high) = if target > 0.0 { (0.0, high) } else { (-high, 0.0) };
            Term { low, high, ..two_sided }
        };
        let squared = |term: Term| Term { ridge: 0.5 / cost, ..term };
        match self {
            // What costs nothing is not looked at.
            _ if cost == 0.0 => two_sided,
            Self::Hinge | Self::Logistic => one_sided(cost),
            Self::SquaredHinge => squared(one_sided(f64::INFINITY)),
            Self::Epsilon(epsilon) => Term { epsilon, ..two_sided },
            Self::SquaredEpsilon(epsilon) => {
                let (low, high) = (f64::NEG_INFINITY, f64::INFINITY);
                squared(Term { epsilon, low, high, ..two_sided })
            }
            Self::OneClass(_) => Term { target: 0.0, low: 0.0, ..two_sided },
        }
    }

    /// The loss of a score, and what the dual has of β besides its square.
    pub(super) fn values(
        self,
        term: Term,
        cost: f64,
        score: f64,
        beta: f64,
    ) -> [f64; 2] {
        let Term { target, epsilon, ridge, .. } = term;
        let over = match self {
            Self::OneClass(_) => -score,
            Self::Epsilon(_) | Self::SquaredEpsilon(_) => {
                (score - target).abs() - epsilon
            }
            _ => 1.0 - target * score,
        };
        let over = over.max(0.0);
        let linear = epsilon * beta.abs() - target * beta;
        match self {
            Self::Logistic => {
                // The exponent is never above 0, so nothing overflows far from the
                // margin.
                let margin = target * score;
                let loss = (-margin.abs()).exp().ln_1p() + (-margin).max(0.0);
                // The limit of share log share at 0.
                let entropy = |share: f64| {
                    if share > 0.0 { share * share.ln() } else { 0.0 }
                };
                let share = if cost > 0.0 { beta.abs() / cost } else { 0.0 };
                [cost * loss, cost * (entropy(share) + entropy(1.0 - share))]
            }
            Self::SquaredHinge | Self::SquaredEpsilon(_) => {
                [cost * over * over, linear + 0.5 * ridge * beta * beta]
            }
            _ => [cost * over, linear],
        }
    }

    /// The slopes at a score of 0: any other is subtracted from both.
    pub(super) fn slopes(self, term: &Term, beta: f64) -> Slopes {
        // ε|β| has an edge at 0: growing from there costs ε, and shrinking from there,
        // too.
        let [mut up, mut down] = [beta >= 0.0, beta > 0.0].map(|is_above| {
            let edge = if is_above { -term.epsilon } else { term.epsilon };
            term.target - term.ridge * beta + edge
        });
        if self == Self::Logistic {
            // At the next floats: no β is exact, and close to c these are far apart.
            let at = |beta: f64| {
                let (cost, alpha) = (term.high - term.low, beta.abs());
                let share = (alpha / cost).max(MIN_SHARE);
                let rest = ((cost - alpha) / cost).max(MIN_REST);
                -term.target * (share / rest).ln()
            };
            [up, down] = [at(beta.next_up()), at(beta.next_down())];
        }
        // At a bound nothing is to be gained that way, whatever the score.
        Slopes {
            up: if beta < term.high { up } else { f64::NEG_INFINITY },
            down: if beta > term.low { down } else { f64::INFINITY },
        }
    }

    /// The second derivative, where K's is `self_kernel`.
    pub(super) fn curvature(self, term: &Term, self_kernel: f64) -> f64 {
        let extra = match self {
            // The least there is.
            Self::Logistic => 4.0 / (term.high - term.low),
            _ => term.ridge,
        };
        (self_kernel + extra).max(MIN_CURVATURE)
    }

    /// The part of the second derivative that is not K's, at a β strictly between bounds.
    pub(super) fn bend(self, term: &Term, beta: f64) -> f64 {
        match self {
            Self::Logistic => {
                let (cost, alpha) = (term.high - term.low, beta.abs());
                cost / alpha / (cost - alpha)
            }
            _ => term.ridge,
        }
    }

    /// The change of one β alone that is best, though not across 0 where the dual has an
    /// edge there.
    pub(super) fn step(
        self,
        term: &Term,
        score: f64,
        beta: f64,
        self_kernel: f64,
    ) -> f64 {
        if self == Self::Logistic {
            return logistic_step(term, score, beta, self_kernel);
        }
        let slopes = self.slopes(term, beta);
        let (up, down) = (slopes.up - score, slopes.down - score);
        let curvature = self.curvature(term, self_kernel);
        if up > 0.0 {
            // Not past a bound or an edge: what lies behind has another slope.
            (up / curvature).min(term.room(beta))
        } else if down < 0.0 {
            -(-down / curvature).min(term.room_below(beta))
        } else {
            0.0
        }
    }
}

impl Term {
    /// Whether the dual has a derivative at β: it is at no bound, nor at an edge at 0.
    pub(super) fn is_smooth(&self, beta: f64) -> bool {
        self.low < beta && beta < self.high && (self.epsilon == 0.0 || beta != 0.0)
    }

    /// How far β can grow without meeting a bound, or an edge at 0.
    pub(super) fn room(&self, beta: f64) -> f64 {
        if self.epsilon > 0.0 && beta < 0.0 { -beta } else { self.high - beta }
    }

    pub(super) fn room_below(&self, beta: f64) -> f64 {
        if self.epsilon > 0.0 && beta > 0.0 { beta } else { beta - self.low }
    }
}

/// The step of one β alone in logistic regression. With α = c σ(z), and a = q c, the
/// derivative of the dual is 0 where
///
/// ```text
/// a σ(z) + z = f,   f = q α_0 - y S
/// ```
///
/// The left side rises with z at least as fast as z does. As σ(z) is below 1 and exp(z), z
/// is between f - min(a, log(1 + a exp(f))) and, by symmetry, f - a + min(a, log(1 + a exp(a - f))).
///
/// Newton's method within these bounds is not enough: on the two flat ends of σ its steps
/// can overshoot to the other end and back, for ever, and stay within. So a step that is not
/// at most half of the one before gives way to a bisection.
fn logistic_step(term: &Term, score: f64, beta: f64, self_kernel: f64) -> f64 {
    let (y, cost, before) = (term.target, term.high - term.low, beta.abs());
    // At most the largest float, so that its logarithm below is a number.
    let a = (self_kernel * cost).clamp(0.0, f64::MAX);
    let right = self_kernel * before - y * score;
    // log(1 + a exp(x)) - x, without a difference of large numbers.
    let over = |x: f64| {
        let power = a.ln() + x;
        if power > 0.0 {
            a.ln() + (-power).exp().ln_1p()
        } else {
            power.exp().ln_1p() - x
        }
    };
    // The bounds of the head: the root is between them, and both ends of σ are covered.
    let mut low = (right - a).max(-over(right));
    let mut high = right.min(over(a - right));
    let mut z = f64::midpoint(low, high);
    let (mut alpha, mut step) = (before, high - low);
    for _ in 0..MAX_ROUNDS {
        // In the form that cannot overflow: exp of a number below 0.
        let sigma =
            if z >= 0.0 { 1.0 / (1.0 + (-z).exp()) } else { z.exp() / (1.0 + z.exp()) };
        alpha = if sigma < MIN_SHARE { 0.0 } else { cost * sigma };
        let slope = self_kernel * (alpha - before) + y * score + z;
        let size = self_kernel * (alpha + before) + score.abs() + z.abs();
        // What is left is rounding of the terms: no better z can be told from this one.
        if slope.abs() <= f64::EPSILON * size {
            break;
        }
        // The left side rises with z, so the root is on the side where it is smaller.
        if slope > 0.0 {
            high = z;
        } else {
            low = z;
        }
        // Newton's step, as the derivative of σ is σ (1 - σ).
        let newton = -slope / (1.0 + self_kernel * alpha * (1.0 - sigma));
        let is_within = (low..=high).contains(&(z + newton));
        step = if is_within && newton.abs() <= 0.5 * step.abs() {
            newton
        } else {
            f64::midpoint(low, high) - z
        };
        if step.abs() <= f64::EPSILON * z.abs() {
            break;
        }
        z += step;
    }
    y * alpha - beta
}
