"""kornia: filters, geometry, colours and losses with known results."""

import kornia
import torch

torch.manual_seed(0)
image = torch.rand(1, 3, 16, 16, requires_grad=True)
blurred = kornia.filters.gaussian_blur2d(image, (5, 5), (1.5, 1.5))
blurred.sum().backward()
assert blurred.var() < image.var() and abs(image.grad.sum().item() - 768) < 1
edges = kornia.filters.sobel(torch.ones(1, 1, 8, 8))
assert edges[..., 2:-2, 2:-2].abs().max() < 1e-2
turned = kornia.geometry.transform.rotate(image.detach(), torch.tensor([90.0]))
assert torch.allclose(turned, torch.rot90(image.detach(), 1, (2, 3)), atol=1e-3)
hsv = kornia.color.rgb_to_hsv(image.detach())
assert torch.allclose(kornia.color.hsv_to_rgb(hsv), image.detach(), atol=1e-4)
assert abs(kornia.losses.ssim_loss(image, image, 5).item()) < 1e-5
points = torch.tensor([[[0.0, 0], [1, 0], [1, 1], [0, 1]]])
moved = points * 2 + torch.tensor([3.0, -1.0])
homography = kornia.geometry.find_homography_dlt(points, moved, torch.ones(1, 4))
assert torch.allclose(kornia.geometry.transform_points(homography, points), moved, atol=1e-3)
rotation = kornia.geometry.conversions.axis_angle_to_rotation_matrix(torch.tensor([[0.0, 0.0, torch.pi / 2]]))
assert torch.allclose(rotation[0] @ torch.tensor([1.0, 0, 0]), torch.tensor([0.0, 1, 0]), atol=1e-5)
augment = kornia.augmentation.AugmentationSequential(kornia.augmentation.RandomHorizontalFlip(p=1.0))
assert torch.allclose(augment(image.detach()), image.detach().flip(-1))
